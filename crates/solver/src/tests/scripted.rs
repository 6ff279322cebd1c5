//! A node that says what a test tells it to, one answer per connection.

use std::sync::Arc;

use evm::Endpoint;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

/// The answer to a method and its parameters. None is an error of the node; one in its own words has the member
/// `error`.
type Script = dyn Fn(&str, &Value) -> Option<Value> + Send + Sync;

pub(crate) async fn start(script: impl Fn(&str, &Value) -> Option<Value> + Send + Sync + 'static) -> Endpoint {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let http = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
    let script: Arc<Script> = Arc::new(script);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let script = script.clone();
            tokio::spawn(async move { answer(stream, &*script).await });
        }
    });
    Endpoint { http, ws: None }
}

async fn answer(stream: TcpStream, script: &Script) -> std::io::Result<()> {
    let mut stream = BufReader::new(stream);
    let mut length = 0;
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).await?;
        let line = line.trim().to_ascii_lowercase();
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        if line.is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await?;
    let question: Value = serde_json::from_slice(&body).unwrap();
    let said = match script(question["method"].as_str().unwrap(), &question["params"]) {
        Some(refusal) if refusal.get("error").is_some() => {
            json!({ "jsonrpc": "2.0", "id": question["id"], "error": refusal["error"] })
        }
        Some(result) => json!({ "jsonrpc": "2.0", "id": question["id"], "result": result }),
        None => json!({ "jsonrpc": "2.0", "id": question["id"], "error": { "code": -32000, "message": "not now" } }),
    };
    let said = said.to_string();
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
        said.len()
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(said.as_bytes()).await?;
    stream.shutdown().await
}
