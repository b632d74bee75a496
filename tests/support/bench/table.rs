//! Lines of the table, printed as they are known and once more together at the end.

/// One measured figure.
pub struct Row {
    /// What.
    pub what: String,
    /// Ours, in words.
    pub ours: String,
    /// The floor, in words.
    pub floor: String,
    /// Ours over the floor, if that means something.
    pub ratio: Option<f64>,
    /// The target, if there is one.
    pub target: Option<Target>,
}

/// What the ratio, or the figure itself, is held against.
#[derive(Clone, Copy)]
pub enum Target {
    /// The ratio is at least this.
    AtLeast(f64),
    /// The ratio is at most this.
    AtMost(f64),
    /// The figure, given here first, is at most the second, in this unit.
    Figure(f64, f64, &'static str),
}

/// Everything measured so far.
#[derive(Default)]
pub struct Table {
    notes: Vec<String>,
    rows: Vec<Row>,
}

impl Table {
    /// A line that is no figure.
    pub fn say(&mut self, text: &str) {
        eprintln!("{text}");
        self.notes.push(text.to_owned());
    }

    /// One figure.
    pub fn add(&mut self, row: Row) {
        eprintln!("{}", line(&row));
        self.rows.push(row);
    }

    /// Prints it all as Markdown.
    pub fn finish(&self) {
        println!();
        for note in &self.notes {
            println!("{note}");
        }
        println!("\n| what | measured | floor, same run | ratio | target | |");
        println!("|---|---|---|---|---|---|");
        for row in &self.rows {
            println!("{}", line(row));
        }
    }
}

fn line(row: &Row) -> String {
    let ratio = row.ratio.map_or(String::new(), |r| format!("{r:.2} ×"));
    let (target, met) = match (row.target, row.ratio) {
        (Some(Target::AtLeast(t)), Some(r)) => (format!("≥ {t} ×"), Some(r >= t)),
        (Some(Target::AtMost(t)), Some(r)) => (format!("≤ {t} ×"), Some(r <= t)),
        (Some(Target::Figure(got, t, unit)), _) => (format!("≤ {t} {unit}"), Some(got <= t)),
        (_, _) => (String::new(), None),
    };
    let met = match met {
        Some(true) => "met",
        Some(false) => "**not met**",
        None => "",
    };
    format!("| {} | {} | {} | {ratio} | {target} | {met} |", row.what, row.ours, row.floor)
}
