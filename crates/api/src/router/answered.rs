//! The metrics of calls: how many were answered on a route with a status, and how long they took.

use std::collections::HashMap;
use std::sync::{PoisonError, RwLock};
use std::time::Duration;

use axum::http::StatusCode;
use metrics::{Counter, Histogram, counter, histogram};

/// The handles of the metrics, by route and status. Both come from the service: there are as many as it has routes, each
/// with the few statuses that it answers.
#[derive(Default)]
pub(super) struct Answered(RwLock<HashMap<String, HashMap<StatusCode, Handles>>>);

struct Handles {
    calls: Counter,
    seconds: Histogram,
}

impl Handles {
    fn new(route: &str, status: StatusCode) -> Self {
        let class = if status.is_server_error() && status != StatusCode::SERVICE_UNAVAILABLE { "error" } else { "ok" };
        let route = route.to_owned();
        Self {
            calls: counter!(
                "causeway_http_requests_total", "route" => route.clone(), "status" => status.as_str().to_owned()
            ),
            seconds: histogram!("causeway_http_seconds", "route" => route, "class" => class),
        }
    }

    fn record(&self, took: Duration) {
        self.calls.increment(1);
        self.seconds.record(took);
    }
}

impl Answered {
    pub(super) fn record(&self, route: &str, status: StatusCode, took: Duration) {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(handles) = known.get(route).and_then(|statuses| statuses.get(&status)) {
            return handles.record(took);
        }
        drop(known);
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let statuses = known.entry(route.to_owned()).or_default();
        statuses.entry(status).or_insert_with(|| Handles::new(route, status)).record(took);
    }
}

#[cfg(test)]
mod tests {
    use metrics_exporter_prometheus::PrometheusBuilder;

    use super::*;

    #[test]
    fn calls_count_by_route_and_status_and_their_time_by_route_and_class() {
        let recorder = PrometheusBuilder::new().build_recorder();
        metrics::with_local_recorder(&recorder, || {
            let answered = Answered::default();
            for (route, status) in
                [("/quote/v2", 200), ("/quote/v2", 200), ("/quote/v2", 503), ("/quote/v2", 500), ("/chains", 200)]
            {
                answered.record(route, StatusCode::from_u16(status).unwrap(), Duration::from_millis(7));
            }
        });
        let text = recorder.handle().render();
        for line in [
            r#"causeway_http_requests_total{route="/quote/v2",status="200"} 2"#,
            r#"causeway_http_requests_total{route="/quote/v2",status="503"} 1"#,
            r#"causeway_http_requests_total{route="/quote/v2",status="500"} 1"#,
            r#"causeway_http_requests_total{route="/chains",status="200"} 1"#,
            r#"causeway_http_seconds_count{route="/quote/v2",class="ok"} 3"#,
            r#"causeway_http_seconds_count{route="/quote/v2",class="error"} 1"#,
            r#"causeway_http_seconds_count{route="/chains",class="ok"} 1"#,
        ] {
            assert!(text.lines().any(|found| found == line), "{line} in {text}");
        }
    }
}
