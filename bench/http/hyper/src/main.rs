// SPDX-License-Identifier: MIT
//
// http PROCESSORS [DATABASE CONNECTIONS]: an HTTP server on hyper and tokio that answers / with
// "hello, world\n" and /db?n=N with the square of N, from PostgreSQL. It prints its port. As in
// hyper's own examples there is a timer, which gives its connections the default time limit for
// a request's head. HTTP_CERTIFICATE and HTTP_KEY name files, to speak TLS.
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, Mutex};
use tokio_postgres::{Client, NoTls, Statement};
use tokio_rustls::rustls::pki_types::{pem::PemObject, CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::TlsAcceptor;

// Idle connections to the database.
struct Pool {
    give: mpsc::UnboundedSender<(Client, Statement)>,
    take: Mutex<mpsc::UnboundedReceiver<(Client, Statement)>>,
}

async fn connect(database: &str, connections: usize) -> Pool {
    let (give, take) = mpsc::unbounded_channel();
    for _ in 0..connections {
        let (client, connection) = tokio_postgres::connect(database, NoTls).await.unwrap();
        tokio::spawn(connection);
        let square = client.prepare("select ($1::int * $1::int)::text").await.unwrap();
        give.send((client, square)).unwrap();
    }
    Pool { give, take: Mutex::new(take) }
}

// Gives the connection back also when the request is dropped, because its client has gone.
struct Taken<'a>(&'a Pool, Option<(Client, Statement)>);

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        let _ = self.0.give.send(self.1.take().unwrap());
    }
}

async fn square(pool: &Pool, n: i32) -> String {
    let taken = pool.take.lock().await.recv().await;
    let taken = Taken(pool, taken);
    let (client, statement) = taken.1.as_ref().unwrap();
    let row = client.query_one(statement, &[&n]).await;
    let text: String = row.unwrap().get(0);
    text + "\n"
}

async fn answer(request: Request<Incoming>, pool: Arc<Option<Pool>>)
                -> Result<Response<Full<Bytes>>, Infallible> {
    let found = match (request.uri().path(), pool.as_ref()) {
        ("/", _) => Some(Bytes::from_static(b"hello, world\n")),
        ("/db", Some(pool)) => {
            let query = request.uri().query().unwrap_or("");
            let n = query.strip_prefix("n=").and_then(|n| n.parse().ok()).unwrap_or(0);
            Some(Bytes::from(square(pool, n).await))
        }
        _ => None,
    };
    let status = if found.is_some() { StatusCode::OK } else { StatusCode::NOT_FOUND };
    Ok(Response::builder()
        .status(status)
        .header("content-type", "text/plain")
        .body(Full::new(found.unwrap_or_default()))
        .unwrap())
}

async fn serve(database: Option<(String, usize)>) {
    let pool = Arc::new(match database {
        Some((database, connections)) => Some(connect(&database, connections).await),
        None => None,
    });
    let tls = acceptor();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    println!("{}", listener.local_addr().unwrap().port());
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let _ = stream.set_nodelay(true);
        let (pool, tls) = (pool.clone(), tls.clone());
        tokio::spawn(async move {
            match tls {
                None => serve_connection(stream, pool).await,
                Some(tls) => {
                    if let Ok(stream) = tls.accept(stream).await {
                        serve_connection(stream, pool).await
                    }
                }
            }
        });
    }
}

async fn serve_connection(stream: impl AsyncRead + AsyncWrite + Unpin + 'static, pool: Arc<Option<Pool>>) {
    let _ = http1::Builder::new()
        .timer(TokioTimer::new())
        .serve_connection(
            TokioIo::new(stream),
            service_fn(move |request| answer(request, pool.clone())),
        )
        .await;
}

fn acceptor() -> Option<TlsAcceptor> {
    let certificate = CertificateDer::from_pem_file(std::env::var("HTTP_CERTIFICATE").ok()?).unwrap();
    let key = PrivateKeyDer::from_pem_file(std::env::var("HTTP_KEY").unwrap()).unwrap();
    let config = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    Some(TlsAcceptor::from(Arc::new(config)))
}

fn main() {
    let words: Vec<String> = std::env::args().collect();
    let processors = words[1].parse().unwrap();
    let database = words.get(3).map(|n| (words[2].clone(), n.parse().unwrap()));
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(processors)
        .enable_all()
        .build()
        .unwrap()
        .block_on(async { tokio::spawn(serve(database)).await.unwrap() });
}
