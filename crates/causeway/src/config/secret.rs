//! Values kept out of the configuration file.

use std::fmt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

/// The location of a secret: an environment variable or a file. Never the configuration itself.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Source {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub env: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<PathBuf>,
}

impl Source {
    #[expect(clippy::disallowed_methods, reason = "secrets come from the environment")]
    pub fn read(&self, folder: &Path) -> Result<Secret> {
        let text = match (&self.env, &self.file) {
            (Some(name), None) => {
                std::env::var(name).with_context(|| format!("the environment variable {name} is not set"))?
            }
            (None, Some(file)) => {
                let path = folder.join(file);
                std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?
            }
            (None, None) | (Some(_), Some(_)) => bail!("a secret has either env or file"),
        };
        Ok(Secret::new(text.trim().to_owned()))
    }
}

/// A value that may be in the configuration file, or kept out of it like a secret.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Text {
    Plain(String),
    Elsewhere(Source),
}

impl Text {
    pub fn read(&self, folder: &Path) -> Result<Secret> {
        match self {
            Self::Plain(text) => Ok(Secret::new(text.clone())),
            Self::Elsewhere(source) => source.read(folder),
        }
    }
}

/// A string that does not print itself.
#[derive(Clone)]
pub struct Secret(String);

impl Secret {
    pub fn new(text: String) -> Self {
        Self(text)
    }

    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}
