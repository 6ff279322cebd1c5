//! HTTP clients of the local network.

/// A client to be configured, which uses no proxy: every address is on this machine.
pub fn client() -> reqwest::ClientBuilder {
    // Libraries ask for a TLS provider even where nothing is encrypted. The second call finds it installed.
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder().no_proxy()
}

/// One GET by a client of its own.
pub async fn get(url: impl reqwest::IntoUrl) -> reqwest::Result<reqwest::Response> {
    client().build()?.get(url).send().await
}
