//! Makes OTLP metrics of the text that `/metrics` shows, so that names, labels and values are the
//! same by construction. The registry lets no other reader at its values.

use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue, any_value};
use opentelemetry_proto::tonic::metrics::v1::{
    AggregationTemporality, Gauge, Histogram, HistogramDataPoint, Metric, NumberDataPoint, Sum,
    metric::Data, number_data_point::Value,
};

/// The times of data points, in nanoseconds since 1970.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    /// Since when the values count.
    pub began: u64,
    /// When they were read.
    pub now: u64,
}

/// The metrics of an OpenMetrics text that have a value. A line that is none is left out.
pub(super) fn metrics(text: &str, times: Times) -> Vec<Metric> {
    let mut metrics = Vec::new();
    let mut family = MetricFamily::default();
    for line in text.lines() {
        let Some(comment) = line.strip_prefix("# ") else {
            family.samples.extend(Sample::read(line));
            continue;
        };
        let mut parts = comment.splitn(3, ' ');
        let (keyword, _name, rest) = (parts.next(), parts.next(), parts.next().unwrap_or_default());
        match keyword {
            // The first line of every family.
            Some("HELP") => {
                metrics.extend(std::mem::take(&mut family).metric(times));
                rest.clone_into(&mut family.help);
            }
            Some("TYPE") => rest.clone_into(&mut family.kind),
            Some("UNIT") => rest.clone_into(&mut family.unit),
            Some(_) | None => {}
        }
    }
    metrics.extend(family.metric(times));
    metrics
}

/// What stands between one `# HELP` and the next.
#[derive(Debug, Default)]
struct MetricFamily<'a> {
    help: String,
    kind: String,
    unit: String,
    samples: Vec<Sample<'a>>,
}

/// One line: `name{label="value"} 1`.
#[derive(Debug)]
struct Sample<'a> {
    name: &'a str,
    labels: Vec<(&'a str, &'a str)>,
    value: &'a str,
}

impl<'a> Sample<'a> {
    fn read(line: &'a str) -> Option<Self> {
        let (series, value) = line.rsplit_once(' ')?;
        let (name, mut rest) = series.split_once('{').unwrap_or((series, ""));
        let mut labels = Vec::new();
        while let Some((label, value)) = rest.split_once("=\"") {
            let (value, next) = value.split_once('"')?;
            labels.push((label.trim_start_matches(','), value));
            rest = next;
        }
        Some(Self { name, labels, value })
    }

    fn attributes(&self) -> Vec<KeyValue> {
        self.labels
            .iter()
            .filter(|(name, _)| *name != "le")
            .map(|label| attribute(*label))
            .collect()
    }

    fn count(&self) -> u64 {
        self.value.parse().unwrap_or_default()
    }

    fn number(&self, times: Times) -> Option<NumberDataPoint> {
        let whole = self.value.parse().map(Value::AsInt);
        let value = whole.or_else(|_| self.value.parse().map(Value::AsDouble)).ok()?;
        Some(NumberDataPoint {
            attributes: self.attributes(),
            start_time_unix_nano: times.began,
            time_unix_nano: times.now,
            value: Some(value),
            ..NumberDataPoint::default()
        })
    }
}

impl MetricFamily<'_> {
    /// `None` if no series of it began yet.
    fn metric(self, times: Times) -> Option<Metric> {
        let name = self.samples.first()?.name;
        let numbers = || self.samples.iter().filter_map(|sample| sample.number(times)).collect();
        let cumulative = i32::from(AggregationTemporality::Cumulative);
        let data = match self.kind.as_str() {
            "histogram" => Data::Histogram(Histogram {
                data_points: self.histograms(times),
                aggregation_temporality: cumulative,
            }),
            "counter" => Data::Sum(Sum {
                data_points: numbers(),
                aggregation_temporality: cumulative,
                is_monotonic: true,
            }),
            // A gauge, or the constant 1 of the build's labels.
            _other => Data::Gauge(Gauge { data_points: numbers() }),
        };
        let name = match &data {
            Data::Histogram(_) => name.strip_suffix("_sum").unwrap_or(name),
            Data::Gauge(_) | Data::Sum(_) | Data::ExponentialHistogram(_) | Data::Summary(_) => {
                name
            }
        };
        Some(Metric {
            name: name.to_owned(),
            description: self.help,
            unit: if self.unit == "seconds" { "s".to_owned() } else { self.unit },
            data: Some(data),
            ..Metric::default()
        })
    }

    /// One point for each series: its sum, its count and then its buckets, which count everything
    /// up to their bound.
    fn histograms(&self, times: Times) -> Vec<HistogramDataPoint> {
        let mut points: Vec<HistogramDataPoint> = Vec::new();
        let mut below = 0;
        for sample in &self.samples {
            if sample.name.ends_with("_sum") {
                below = 0;
                points.push(HistogramDataPoint {
                    attributes: sample.attributes(),
                    start_time_unix_nano: times.began,
                    time_unix_nano: times.now,
                    sum: sample.value.parse().ok(),
                    ..HistogramDataPoint::default()
                });
                continue;
            }
            let Some(point) = points.last_mut() else { continue };
            if sample.name.ends_with("_count") {
                point.count = sample.count();
                continue;
            }
            let up_to = sample.count();
            point.bucket_counts.push(up_to.saturating_sub(below));
            below = up_to;
            let bound = sample.labels.iter().find(|(name, _)| *name == "le");
            let bound = bound.and_then(|(_, bound)| bound.parse::<f64>().ok());
            // The last bucket has no bound.
            point.explicit_bounds.extend(bound.filter(|bound| bound.is_finite()));
        }
        points
    }
}

fn attribute((name, value): (&str, &str)) -> KeyValue {
    let value = any_value::Value::StringValue(value.to_owned());
    KeyValue {
        key: name.to_owned(),
        value: Some(AnyValue { value: Some(value) }),
        ..KeyValue::default()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::telemetry::Stage;
    use crate::telemetry::metrics::Metrics;

    fn all() -> Vec<Metric> {
        let gate = Metrics::new(["work.do".to_owned()], "1.2.3", "abc");
        gate.call("work.do", "allow", true);
        gate.call("work.do", "allow", true);
        gate.call("work.do", "deny", false);
        gate.stage(Stage::Judge, Duration::from_micros(60));
        gate.stage(Stage::Judge, Duration::from_millis(1));
        gate.stage(Stage::Tool, Duration::from_secs(60));
        gate.open_runs(2);
        metrics(&gate.text().unwrap(), Times { began: 1, now: 2 })
    }

    fn named(name: &str) -> Metric {
        all().into_iter().find(|metric| metric.name == name).unwrap()
    }

    fn labels(attributes: &[KeyValue]) -> Vec<(String, String)> {
        let text = |value: &Option<AnyValue>| {
            let value = value.clone().unwrap().value;
            let Some(any_value::Value::StringValue(text)) = value else { panic!("{value:?}") };
            text
        };
        attributes.iter().map(|label| (label.key.clone(), text(&label.value))).collect()
    }

    #[test]
    fn a_counter_is_a_sum_that_only_grows() {
        let metric = named("wicketgate_calls_total");
        assert_eq!(metric.description, "Calls that were decided and recorded.");
        let Some(Data::Sum(sum)) = metric.data else { panic!("{:?}", metric.data) };
        assert!(sum.is_monotonic && sum.aggregation_temporality == 2);
        let mut points: Vec<_> =
            sum.data_points.iter().map(|p| (labels(&p.attributes), p.value)).collect();
        points.sort_by_key(|(labels, _)| labels.clone());
        let series = |verdict: &str, enforced: &str| {
            [("tool", "work.do"), ("verdict", verdict), ("enforced", enforced)]
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .to_vec()
        };
        let expected = [
            (series("allow", "true"), Some(Value::AsInt(2))),
            (series("deny", "false"), Some(Value::AsInt(1))),
        ];
        assert_eq!(points, expected);
        let times: Vec<_> =
            sum.data_points.iter().map(|p| (p.start_time_unix_nano, p.time_unix_nano)).collect();
        assert_eq!(times, [(1, 2), (1, 2)]);
    }

    #[test]
    fn a_histogram_keeps_its_buckets() {
        let metric = named("wicketgate_call_duration_seconds");
        assert_eq!(metric.unit, "s");
        let Some(Data::Histogram(histogram)) = metric.data else { panic!("{:?}", metric.data) };
        assert_eq!(histogram.data_points.len(), 2);
        let of = |stage: &str| {
            let stage = [("stage".to_owned(), stage.to_owned())];
            let mut points = histogram.data_points.iter();
            points.find(|point| labels(&point.attributes) == stage).unwrap()
        };
        let (judge, tool) = (of("judge"), of("tool"));
        assert_eq!((judge.explicit_bounds.len(), judge.bucket_counts.len()), (20, 21));
        assert_eq!(judge.explicit_bounds[..3], [0.000_05, 0.000_1, 0.000_2]);
        assert_eq!(judge.bucket_counts[..7], [0, 1, 0, 0, 0, 1, 0]);
        assert_eq!((judge.count, judge.bucket_counts.iter().sum::<u64>()), (2, 2));
        assert!((judge.sum.unwrap() - 0.001_06).abs() < 1e-9);
        assert_eq!((tool.count, tool.bucket_counts[20]), (1, 1));
    }

    #[test]
    fn a_gauge_and_the_build_are_values_of_now() {
        for (name, series, value) in [
            ("wicketgate_open_runs", vec![], 2),
            ("wicketgate_build_info", vec![("version", "1.2.3"), ("revision", "abc")], 1),
        ] {
            let metric = named(name);
            let Some(Data::Gauge(gauge)) = metric.data else { panic!("{:?}", metric.data) };
            let [point] = gauge.data_points.as_slice() else { panic!("{name}") };
            let series =
                series.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned()));
            assert_eq!(labels(&point.attributes), series.collect::<Vec<_>>());
            assert_eq!(point.value, Some(Value::AsInt(value)));
        }
    }

    #[test]
    fn a_family_without_a_series_is_not_sent() {
        assert!(all().iter().all(|metric| metric.name != "wicketgate_denials_total"));
        assert_eq!(metrics("", Times { began: 1, now: 2 }), []);
    }
}
