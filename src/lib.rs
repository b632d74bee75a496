//! Wicketgate: a sidecar between an AI agent and every tool it can reach.

pub mod app;
pub mod catalog;
pub mod cli;
pub mod clock;
pub mod config;
pub mod crypto;
pub mod domain;
pub mod enforce;
pub mod evidence;
pub mod firewall;
pub mod identity;
pub mod ledger;
pub mod limits;
pub mod policy;
pub mod serve;
pub mod telemetry;
pub mod tool;
pub mod yaml;
