//! The routes of the face, as one table: it finds a request's route and lists the surface.

use http::HeaderMap;

use crate::domain::dialect::{Dialect, Operation};
use crate::serve::Access;
use crate::serve::dialect::spoken;
use crate::serve::guard::is_run_name;

/// Where the models of Google are.
const GOOGLE: &str = "/v1beta";
/// What stands before the name of a run.
const RUNS: &str = "/r/";
/// What stands before a path whose tool loop the gate runs.
const MANAGED: &str = "/managed";
/// Where the models are.
const MODELS: &str = "/v1/models";

/// The only query that goes on to a provider, and only in the dialect that has it.
pub(super) const BETA: &str = "beta=true";

/// How clients of Google ask for a stream of events, and for one list.
pub(super) const EVENTS: &str = "alt=sse";
pub(super) const LIST: &str = "alt=json";

/// What a route is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Purpose {
    /// To ask a model.
    Ask(Dialect, Operation),
    /// To list the models.
    Models,
    /// To show the model of the path.
    Model,
}

/// One route, without the name of a run before it.
#[derive(Debug)]
pub(super) struct LlmRoute {
    pub method: &'static str,
    pub path: &'static str,
    pub access: Access,
    pub purpose: Purpose,
    /// Whether the path says that the answer is a stream; then it names the model, too.
    pub streams: Option<bool>,
}

impl LlmRoute {
    /// Whether it stands below `/managed` too.
    pub(super) fn has_managed(&self) -> bool {
        match self.purpose {
            Purpose::Ask(dialect, _) => spoken(dialect).runs_loop(),
            Purpose::Models | Purpose::Model => self.path.starts_with(MODELS),
        }
    }

    /// The model that this path names; empty if the route has no place for one. None: it is the path
    /// of another route.
    fn model<'a>(&self, path: &'a str) -> Option<&'a str> {
        let Some((before, behind)) = self.path.split_once('{') else {
            return (self.path == path).then_some("");
        };
        let after = behind.split_once('}').map_or("", |(_, after)| after);
        let model = path.strip_prefix(before)?.strip_suffix(after)?;
        // Ids of OpenAI's clients may have several segments; a colon of Google's begins an action.
        let is_other = before.starts_with(GOOGLE) && model.contains(['/', ':']);
        Some(model).filter(|model| !model.is_empty() && !is_other)
    }

    /// The paths at which it stands.
    pub(super) fn paths(&self) -> Vec<String> {
        let managed = self.has_managed().then(|| format!("{MANAGED}{}", self.path));
        let all = std::iter::once(self.path.to_owned()).chain(managed);
        all.flat_map(|path| [path.clone(), format!("/r/{{run}}{path}")]).collect()
    }
}

const fn asks(path: &'static str, dialect: Dialect, operation: Operation) -> LlmRoute {
    let purpose = Purpose::Ask(dialect, operation);
    LlmRoute { method: "POST", path, access: Access::Enforced, purpose, streams: None }
}

/// A route of Google, whose path names the model and the form of the answer.
const fn asks_at(path: &'static str, operation: Operation, streams: bool) -> LlmRoute {
    LlmRoute { streams: Some(streams), ..asks(path, Dialect::Gemini, operation) }
}

const fn shows(path: &'static str, purpose: Purpose) -> LlmRoute {
    LlmRoute { method: "GET", path, access: Access::Identified, purpose, streams: None }
}

pub(super) const ROUTES: [LlmRoute; 13] = [
    asks("/v1/chat/completions", Dialect::Chat, Operation::Generate),
    asks("/v1/responses", Dialect::Responses, Operation::Generate),
    asks("/v1/messages", Dialect::Messages, Operation::Generate),
    asks("/v1/messages/count_tokens", Dialect::Messages, Operation::CountTokens),
    shows(MODELS, Purpose::Models),
    shows("/v1/models/{id}", Purpose::Model),
    asks_at("/v1beta/models/{model}:generateContent", Operation::Generate, false),
    asks_at("/v1beta/models/{model}:streamGenerateContent", Operation::Generate, true),
    asks_at("/v1beta/models/{model}:countTokens", Operation::CountTokens, false),
    shows("/v1beta/models", Purpose::Models),
    shows("/v1beta/models/{id}", Purpose::Model),
    asks("/api/chat", Dialect::Ollama, Operation::Generate),
    shows("/api/tags", Purpose::Models),
];

/// A path of the face. Nothing of it is decoded or resolved.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct ModelPath<'a> {
    /// The name of the run, if the path has one.
    run: Option<&'a str>,
    /// Whether the gate runs the tool loop of the request.
    managed: bool,
    /// The rest, which begins with the root of a dialect.
    rest: &'a str,
}

impl<'a> ModelPath<'a> {
    /// The path, if it is the face's, known or not.
    pub(super) fn of(path: &'a str) -> Option<Self> {
        let (run, rest) = match path.strip_prefix(RUNS) {
            None => (None, path),
            Some(named) => {
                let (run, rest) = named.split_at_checked(named.find('/')?)?;
                (Some(run), rest)
            }
        };
        let inner = rest.strip_prefix(MANAGED);
        let (managed, rest) = (inner.is_some(), inner.unwrap_or(rest));
        is_below(rest).then_some(Self { run, managed, rest })
    }

    /// Whether the gate runs the tool loop of the request.
    pub(super) const fn is_managed(&self) -> bool {
        self.managed
    }

    /// The name of the run, if the path has one.
    pub(super) const fn run(&self) -> Option<&'a str> {
        self.run
    }

    /// The route of this path, if there is one, and the model that it names.
    pub(super) fn route(&self) -> Option<(&'static LlmRoute, &'a str)> {
        if self.run.is_some_and(|name| !is_run_name(name)) {
            return None;
        }
        let mut routes = ROUTES.iter().filter(|route| !self.managed || route.has_managed());
        routes.find_map(|route| Some((route, route.model(self.rest)?)))
    }

    /// The dialect of the client: that of its path, or the one that its headers show.
    pub(super) fn dialect(&self, headers: &HeaderMap) -> Dialect {
        let asked = self.route().map(|(route, _)| route.purpose);
        if let Some(Purpose::Ask(dialect, _)) = asked {
            return dialect;
        }
        let mut all = Dialect::ALL.iter().copied();
        let claimed = all.find(|dialect| spoken(*dialect).claims(self.rest, headers));
        claimed.unwrap_or(Dialect::Chat)
    }
}

/// Whether the query asks the provider for its preview API: clients of Anthropic send `beta=true`.
pub(super) fn is_beta(query: &str, dialect: Dialect) -> bool {
    spoken(dialect).has_preview() && query.split('&').any(|part| part == BETA)
}

fn is_below(path: &str) -> bool {
    let below = |root: &str| {
        path.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    Dialect::ALL.iter().any(|dialect| below(spoken(*dialect).root()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serve::dialect::ANTHROPIC;

    fn purpose(path: &str) -> Option<Purpose> {
        ModelPath::of(path)?.route().map(|(route, _)| route.purpose)
    }

    #[test]
    fn each_route_stands_at_its_path_with_and_without_the_name_of_a_run() {
        for route in &ROUTES {
            let google =
                route.path.replace("{model}", "a-1.5").replace("beta/models/{id}", "beta/models/a");
            let path = google.replace("{id}", "a/model-1:0");
            for (path, run) in [(path.clone(), None), (format!("/r/a.b{path}"), Some("a.b"))] {
                assert_eq!(purpose(&path), Some(route.purpose), "{path}");
                assert_eq!(ModelPath::of(&path).unwrap().run(), run);
            }
        }
        let model = ModelPath::of("/v1/models/a/b").unwrap().route().unwrap().1;
        assert_eq!(model, "a/b");
    }

    #[test]
    fn everything_else_below_is_the_faces_and_no_route() {
        for path in [
            "/v1",
            "/v1/",
            "/v1/files",
            "/v1/batches",
            "/v1/assistants",
            "/v1/realtime",
            "/v1/embeddings",
            "/v1/completions",
            "/v1/responses/resp_1",
            "/v1/responses/resp_1/cancel",
            "/v1/conversations",
            "/v1//chat/completions",
            "/v1/chat/completions/",
            "/v1/../admin",
            "/v1/models/",
            "/v1/%6dessages",
            "/r/a/v1/files",
            "/r//v1/messages",
            "/r/../v1/messages",
            "/r/a%2fb/v1/messages",
            "/v1beta",
            "/v1beta/models/",
            "/v1beta/models/:generateContent",
            "/v1beta/models/a:embedContent",
            "/v1beta/models/a:batchGenerateContent",
            "/v1beta/models/a/b:generateContent",
            "/v1beta/models/a:generateContent:countTokens",
            "/v1beta/tunedModels/a:generateContent",
            "/v1beta/cachedContents",
            "/v1beta/files",
            "/v1beta/../v1/messages",
            "/api",
            "/api/generate",
            "/api/show",
            "/api/pull",
            "/api/chat/",
            "/r/a/api/delete",
        ] {
            assert!(ModelPath::of(path).is_some(), "{path}");
            assert_eq!(purpose(path), None, "{path}");
        }
        for path in [
            "/",
            "/v10",
            "/v1alpha/models",
            "/apis",
            "/v2/messages",
            "/r",
            "/r/a",
            "/r/a/mcp",
            "/mcp/r/a/v1",
            "/gate/v1",
        ] {
            assert_eq!(ModelPath::of(path), None, "{path}");
        }
    }

    #[test]
    fn the_loop_of_the_gate_stands_below_a_path_of_its_own_with_and_without_the_name_of_a_run() {
        for (path, run) in [
            ("/managed/v1/chat/completions", None),
            ("/r/a/managed/v1/chat/completions", Some("a")),
            ("/managed/v1/models", None),
            ("/r/a/managed/v1/models/m", Some("a")),
        ] {
            let found = ModelPath::of(path).unwrap();
            assert!(found.is_managed() && found.route().is_some(), "{path}");
            assert_eq!(found.run(), run);
        }
        for path in ["/managed/v1/messages", "/managed/v1/responses", "/managed/v1/files"] {
            assert!(ModelPath::of(path).is_some() && purpose(path).is_none(), "{path}");
        }
        for path in
            ["/managed", "/managed/", "/managed/r/a/v1/models", "/managedv1", "/managed/managed/v1"]
        {
            assert_eq!(ModelPath::of(path), None, "{path}");
        }
    }

    #[test]
    fn the_preview_api_is_asked_for_in_one_dialect() {
        assert!(is_beta("beta=true", Dialect::Messages));
        assert!(is_beta("beta=true&beta=true", Dialect::Messages));
        for (query, dialect) in [
            ("", Dialect::Messages),
            ("beta=false", Dialect::Messages),
            ("xbeta=true", Dialect::Messages),
            ("beta=true", Dialect::Chat),
            ("beta=true", Dialect::Responses),
        ] {
            assert!(!is_beta(query, dialect), "{query}");
        }
    }

    #[test]
    fn an_error_is_worded_for_the_client_that_asks() {
        let plain = HeaderMap::new();
        let mut anthropic = HeaderMap::new();
        anthropic.insert(ANTHROPIC, http::HeaderValue::from_static("2023-06-01"));
        for (path, headers, dialect) in [
            ("/v1/chat/completions", &anthropic, Dialect::Chat),
            ("/v1/responses/resp_1", &plain, Dialect::Responses),
            ("/r/a/v1/messages/batches", &plain, Dialect::Messages),
            ("/v1/models", &plain, Dialect::Chat),
            ("/v1/models", &anthropic, Dialect::Messages),
            ("/v1/files", &anthropic, Dialect::Messages),
            ("/v1/files", &plain, Dialect::Chat),
            ("/v1beta/models/a:generateContent", &plain, Dialect::Gemini),
            ("/v1beta/files", &anthropic, Dialect::Gemini),
            ("/r/a/api/tags", &plain, Dialect::Ollama),
            ("/api/pull", &plain, Dialect::Ollama),
        ] {
            assert_eq!(ModelPath::of(path).unwrap().dialect(headers), dialect, "{path}");
        }
    }
}
