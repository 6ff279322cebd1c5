//! HTTP clients. TLS is rustls with ring, the one provider in the binary.

use std::time::Duration;

use crate::errors::ChainError;

/// A client to be configured. Proxies of the environment are not used: signed transactions go where the configuration
/// says.
pub fn client() -> reqwest::ClientBuilder {
    // The second and every later call finds the provider installed.
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder().no_proxy()
}

/// The client of nodes. It reads the system's certificates, which takes some milliseconds. Redirects are not followed,
/// for the same reason.
pub(crate) fn node_client(timeout: Duration) -> Result<reqwest::Client, ChainError> {
    client()
        .redirect(reqwest::redirect::Policy::none())
        .tcp_nodelay(true)
        .connect_timeout(timeout)
        .pool_idle_timeout(Duration::from_secs(60))
        .build()
        .map_err(|error| ChainError::Client(error.without_url().to_string()))
}
