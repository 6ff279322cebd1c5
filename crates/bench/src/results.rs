//! Results as JSON, for programs.

use std::path::Path;

use anyhow::{Context, Result};
use serde::Serialize;

/// Writes results to a file, if one was named.
pub(crate) fn write(path: Option<&Path>, results: &impl Serialize) -> Result<()> {
    let Some(path) = path else { return Ok(()) };
    let text = serde_json::to_string_pretty(results)?;
    std::fs::write(path, text + "\n").with_context(|| format!("cannot write {}", path.display()))
}
