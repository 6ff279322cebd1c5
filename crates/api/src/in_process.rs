//! The routes, called by another part of this process: no socket, no key's text, the same rules and answers.
//!
//! Extensions of a request never come from the network, so that nobody outside can act as anybody.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::http::Request;
use axum::response::Response;
use domain::api_key::ApiKey;
use tower::ServiceExt;

/// On whose behalf a call within the process is made. It counts against nobody's rate limit: its caller has its own.
#[derive(Clone, Debug)]
pub enum Acting {
    Nobody,
    Key(Arc<ApiKey>),
    Operator,
}

/// Both routers, ready to be called.
#[derive(Clone, Debug)]
pub struct InProcess {
    public: Router,
    operating: Router,
}

impl InProcess {
    /// `operating` has the reports that callers do not get.
    pub fn new(public: Router, operating: Router) -> Self {
        Self { public, operating }
    }

    pub async fn call(&self, acting: Acting, mut request: Request<Body>) -> Response {
        let full = matches!(acting, Acting::Operator) && request.uri().path() == "/lives";
        let router = if full { &self.operating } else { &self.public };
        request.extensions_mut().insert(acting);
        let Ok(response) = router.clone().oneshot(request).await;
        response
    }
}
