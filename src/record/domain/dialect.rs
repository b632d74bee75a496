//! The protocols in which agents talk to models.

use super::closed::closed;

closed! {
    /// A protocol of model providers, by the resource that it posts to.
    pub enum Dialect {
        /// `POST /v1/chat/completions` (OpenAI, and many servers).
        Chat = "chat",
        /// `POST /v1/responses` (OpenAI).
        Responses = "responses",
        /// `POST /v1/messages` (Anthropic).
        Messages = "messages",
        /// `POST /v1beta/models/{model}:generateContent` (Google).
        Gemini = "gemini",
        /// `POST /api/chat` (Ollama).
        Ollama = "ollama",
    }
}

impl Dialect {
    /// Whether a later request may refer to what a provider keeps of an answer, by an id in that answer.
    #[must_use]
    pub const fn refers_back(self) -> bool {
        match self {
            Self::Responses | Self::Messages => true,
            Self::Chat | Self::Gemini | Self::Ollama => false,
        }
    }
}

closed! {
    /// What a request asks a model for.
    pub enum Operation {
        /// An answer.
        Generate = "generate",
        /// The number of tokens of the request.
        CountTokens = "count_tokens",
    }
}

closed! {
    /// Where a text that a provider treats as instructions stands in a request.
    pub enum Place {
        /// Before the first item that is no instructions.
        Leading = "leading",
        /// Behind such an item.
        Mid = "mid",
    }
}
