//! Levels of log messages (RFC 5424), as far as MCP names them.

/// One level, least severe first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Level {
    Debug,
    Info,
    Notice,
    Warning,
    Error,
    Critical,
    Alert,
    Emergency,
}

const ALL: [(Level, &str); 8] = [
    (Level::Debug, "debug"),
    (Level::Info, "info"),
    (Level::Notice, "notice"),
    (Level::Warning, "warning"),
    (Level::Error, "error"),
    (Level::Critical, "critical"),
    (Level::Alert, "alert"),
    (Level::Emergency, "emergency"),
];

impl Level {
    /// Reads the level's name.
    pub(super) fn parse(text: &str) -> Option<Self> {
        ALL.iter().find(|(_, name)| *name == text).map(|(level, _)| *level)
    }

    /// Its place in the order.
    pub(super) fn rank(self) -> u8 {
        let position = ALL.iter().position(|(level, _)| *level == self).unwrap_or_default();
        u8::try_from(position).unwrap_or_default()
    }

    /// The level at this place.
    pub(super) fn of_rank(rank: u8) -> Option<Self> {
        ALL.get(usize::from(rank)).map(|(level, _)| *level)
    }
}
