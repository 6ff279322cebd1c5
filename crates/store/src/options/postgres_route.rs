//! The address of a Postgres server: its URL, and TLS as the URL asks for it.
//!
//! `sslmode=disable` never uses TLS, `require` always does, `prefer` does if the server offers it. Without the option,
//! a server on this machine is reached in plain text and any other with `prefer`. A certificate is always verified,
//! against the public roots or those of `sslrootcert=<pem file>`.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use postgres::config::{Host, SslMode};
use postgres::{Client, Config, NoTls};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::PostgresUrl;
use crate::StoreError;

/// A server that does not answer is abandoned after this, unless the URL says otherwise.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// A peer that vanished without closing is noticed after this.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(15);

#[derive(Clone)]
pub(crate) struct Route {
    config: Config,
    tls: Option<MakeRustlsConnect>,
}

impl Route {
    pub(crate) fn new(url: &PostgresUrl) -> Result<Self, StoreError> {
        let (mut config, roots) = parse(url)?;
        config.application_name("causeway");
        config.keepalives_idle(SILENCE_TIMEOUT).tcp_user_timeout(SILENCE_TIMEOUT);
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(CONNECT_TIMEOUT);
        }
        let tls = match config.get_ssl_mode() {
            SslMode::Disable => None,
            _ => Some(MakeRustlsConnect::new(tls(roots)?)),
        };
        Ok(Self { config, tls })
    }

    pub(crate) fn connect(&self) -> Result<Client, postgres::Error> {
        match &self.tls {
            Some(tls) => self.config.connect(tls.clone()),
            None => self.config.connect(NoTls),
        }
    }
}

/// Checks a URL early, so that a mistake is found where it is configured.
pub(crate) fn check_url(url: &PostgresUrl) -> Result<(), StoreError> {
    parse(url).map(drop)
}

fn parse(url: &PostgresUrl) -> Result<(Config, Option<PathBuf>), StoreError> {
    let url = url.expose();
    let (mut mode, mut roots, mut others) = (None, None, Vec::new());
    for (name, value) in url.query_pairs().into_owned() {
        match name.as_str() {
            "sslmode" => {
                mode = Some(match value.as_str() {
                    "disable" => SslMode::Disable,
                    "prefer" => SslMode::Prefer,
                    "require" | "verify-ca" | "verify-full" => SslMode::Require,
                    _ => return Err(StoreError::Url("sslmode is disable, prefer, require or verify-full")),
                });
            }
            "sslrootcert" => roots = Some(PathBuf::from(value)),
            _ => others.push((name, value)),
        }
    }
    let mut bare = url.clone();
    bare.set_query(None);
    if !others.is_empty() {
        bare.query_pairs_mut().extend_pairs(others);
    }
    // The parser's own message may quote the URL, password included.
    let mut config: Config =
        bare.as_str().parse().map_err(|_| StoreError::Url("postgres options are not understood"))?;
    if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
        return Err(StoreError::Url("postgres needs a host"));
    }
    let local = config.get_hosts().iter().all(|host| match host {
        Host::Tcp(name) => ["localhost", "127.0.0.1", "::1", "[::1]"].contains(&name.as_str()),
        Host::Unix(_) => true,
    });
    config.ssl_mode(mode.unwrap_or(if local { SslMode::Disable } else { SslMode::Prefer }));
    Ok((config, roots))
}

fn tls(roots: Option<PathBuf>) -> Result<ClientConfig, StoreError> {
    let mut trusted = RootCertStore::empty();
    match roots {
        None => trusted.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned()),
        Some(path) => {
            let unreadable = |error: Box<dyn std::error::Error + Send + Sync>| StoreError::File {
                path: path.clone(),
                source: Arc::new(std::io::Error::other(error)),
            };
            for certificate in CertificateDer::pem_file_iter(&path).map_err(|error| unreadable(error.into()))? {
                let certificate = certificate.map_err(|error| unreadable(error.into()))?;
                trusted.add(certificate).map_err(|error| unreadable(error.into()))?;
            }
            if trusted.is_empty() {
                return Err(unreadable("no certificate in it".into()));
            }
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder.map_err(|_| StoreError::Url("tls is not available"))?;
    Ok(builder.with_root_certificates(trusted).with_no_client_auth())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DatabaseUrl;

    fn mode(text: &str) -> SslMode {
        match text.parse().unwrap() {
            DatabaseUrl::Postgres(url) => parse(&url).unwrap().0.get_ssl_mode(),
            DatabaseUrl::Sqlite(_) => unreachable!("a postgres url"),
        }
    }

    #[test]
    fn tls_is_as_the_url_asks() {
        for (url, expected) in [
            ("postgres://app@localhost/d", SslMode::Disable),
            ("postgres://app@127.0.0.1:5433/d", SslMode::Disable),
            ("postgres://app@[::1]/d", SslMode::Disable),
            ("postgres://app@db.example/d", SslMode::Prefer),
            ("postgres://app@localhost/d?sslmode=require", SslMode::Require),
            ("postgres://app@db.example/d?sslmode=disable", SslMode::Disable),
            ("postgresql://app@db.example/d?sslmode=verify-full&connect_timeout=3", SslMode::Require),
        ] {
            assert_eq!(mode(url), expected, "{url}");
        }
    }

    #[test]
    fn public_roots_make_a_tls_client() {
        assert!(tls(None).is_ok());
        assert!(matches!(tls(Some("/does/not/exist.pem".into())), Err(StoreError::File { .. })));
    }
}
