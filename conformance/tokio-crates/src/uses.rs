//! One use of each crate. The code below knows of the simulation only what it needs to judge.

use shaketable::foundationdb::FdbBindingError;
use shaketable::{PhaseError, SimDatabase, WorkloadContext};
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::Instant;
use tower::{Service, ServiceBuilder, ServiceExt, service_fn};

/// Uses the crate of that name. Returns how it went, and when, in words.
pub async fn run(
    name: &str,
    db: SimDatabase,
    context: &WorkloadContext,
) -> Result<String, PhaseError> {
    let begin = Instant::now();
    let story = match name {
        "backon" => backon(db).await?,
        "moka" => moka(db).await?,
        "tonic" => tonic(db).await?,
        _ => tower(db).await?,
    };
    Ok(format!(
        "{story}; {:?} and {} s later the next random number is {}",
        begin.elapsed(),
        context.now(),
        context.rnd()
    ))
}

/// Counts a visit of `page`; returns how many there were.
async fn visit(db: &SimDatabase, page: &str) -> Result<u64, FdbBindingError> {
    let key = &format!("visits/{page}").into_bytes();
    db.run(|trx, _| async move {
        let value = trx.get(key, false).await?;
        let before = value.as_deref().and_then(|bytes| bytes.try_into().ok());
        let visits = before.map_or(0, u64::from_le_bytes) + 1;
        trx.set(key, &visits.to_le_bytes());
        Ok(visits)
    })
    .await
}

/// Retries with pauses that grow.
async fn backon(db: SimDatabase) -> Result<String, PhaseError> {
    use backon::{ExponentialBuilder, Retryable};
    let attempts = AtomicU64::new(0);
    let begin = Instant::now();
    let pauses = ExponentialBuilder::default()
        .with_min_delay(Duration::from_secs(1))
        .with_max_delay(Duration::from_secs(60))
        .with_max_times(8)
        .with_jitter();
    let visits = (|| async {
        match attempts.fetch_add(1, Ordering::Relaxed) {
            0..5 => Err("not yet".to_owned()),
            _ => visit(&db, "backon")
                .await
                .map_err(|error| error.to_string()),
        }
    })
    .retry(pauses)
    .await?;
    // 1 + 2 + 4 + 8 + 16 seconds, each with a jitter of up to once more.
    let waited = begin.elapsed().as_secs_f64();
    if !(31.0..100.0).contains(&waited) {
        return Err(format!("expected five pauses, waited {waited} s").into());
    }
    Ok(format!("{visits} visits, five pauses in {waited} s"))
}

/// A cache whose entries expire, in front of the database; readers at once load an entry once.
async fn moka(db: SimDatabase) -> Result<String, PhaseError> {
    let cache = ::moka::future::Cache::builder()
        .max_capacity(100)
        .time_to_live(Duration::from_secs(60))
        .build();
    let loads = Arc::new(AtomicU64::new(0));
    let mut seen = Vec::new();
    for expected in 1..=3 {
        let readers = (0..5).map(|_| {
            let (cache, db, loads) = (cache.clone(), db.clone(), loads.clone());
            tokio::spawn(async move {
                let load = async {
                    loads.fetch_add(1, Ordering::Relaxed);
                    visit(&db, "moka").await
                };
                cache.try_get_with("moka", load).await
            })
        });
        for reader in readers.collect::<Vec<_>>() {
            seen.push(reader.await?.map_err(|error| error.to_string())?);
        }
        let loaded = loads.load(Ordering::Relaxed);
        if loaded != expected {
            return Err(format!("expected {expected} loads, found {loaded}").into());
        }
        // Longer than an entry lives.
        tokio::time::sleep(Duration::from_secs(61)).await;
    }
    Ok(format!("{seen:?}"))
}

/// Layers around a service: a buffer, a limit, retries, a timeout for each attempt.
async fn tower(db: SimDatabase) -> Result<String, PhaseError> {
    #[derive(Clone)]
    struct Twice(u32);
    impl<Q: Clone, S> tower::retry::Policy<Q, S, tower::BoxError> for Twice {
        type Future = std::future::Ready<()>;
        fn retry(
            &mut self,
            _request: &mut Q,
            result: &mut Result<S, tower::BoxError>,
        ) -> Option<Self::Future> {
            self.0 = self.0.checked_sub(result.is_err().into())?;
            result.is_err().then(|| std::future::ready(()))
        }
        fn clone_request(&mut self, request: &Q) -> Option<Q> {
            Some(request.clone())
        }
    }
    let attempts = Arc::new(AtomicU64::new(0));
    let counted = attempts.clone();
    let handler = service_fn(move |page: String| {
        let (db, attempt) = (db.clone(), counted.fetch_add(1, Ordering::Relaxed));
        async move {
            if attempt % 2 == 0 {
                // Longer than the timeout.
                tokio::time::sleep(Duration::from_secs(3600)).await;
            }
            visit(&db, &page).await
        }
    });
    let service = ServiceBuilder::new()
        .buffer(16)
        .rate_limit(1, Duration::from_secs(10))
        .retry(Twice(2))
        .timeout(Duration::from_secs(100))
        .service(handler);
    let begin = Instant::now();
    let mut visits = Vec::new();
    for _ in 0..3 {
        let request = service.clone().oneshot("tower".to_owned());
        visits.push(request.await.map_err(|error| error.to_string())?);
    }
    let waited = begin.elapsed().as_secs_f64();
    if attempts.load(Ordering::Relaxed) != 6 || waited < 300.0 {
        return Err(format!("expected three timeouts, waited {waited} s").into());
    }
    Ok(format!("{visits:?} in {waited} s"))
}

/// A server and its client, with a stream in memory between them.
async fn tonic(db: SimDatabase) -> Result<String, PhaseError> {
    use ::tonic::transport::{Endpoint, Server, Uri};
    let (near, far) = tokio::io::duplex(1024);
    let server = Server::builder()
        .add_service(Visits { db })
        .serve_with_incoming(tokio_stream::once(Ok::<_, std::io::Error>(far)));
    let server = tokio::spawn(server);
    let mut near = Some(near);
    let connect = service_fn(move |_: Uri| {
        let near = near.take().ok_or(std::io::ErrorKind::NotConnected);
        async move { Ok::<_, std::io::Error>(hyper_util::rt::TokioIo::new(near?)) }
    });
    let channel = Endpoint::from_static("http://in.memory")
        .connect_with_connector(connect)
        .await?;
    let mut client = ::tonic::client::Grpc::new(channel);
    let mut visits = Vec::new();
    for page in ["one", "two", "one", "slow"] {
        let mut request = ::tonic::Request::new(page.to_owned());
        request.set_timeout(Duration::from_secs(30));
        client.ready().await?;
        let path = http::uri::PathAndQuery::from_static("/visits.Visits/Visit");
        let answer = client
            .unary(
                request,
                path,
                tonic_prost::ProstCodec::<String, u64>::default(),
            )
            .await;
        match answer {
            Ok(count) => visits.push(count.into_inner().to_string()),
            Err(status) => visits.push(format!("{:?}", status.code())),
        }
    }
    drop(client);
    server.await??;
    if !matches!(&*visits, [_, _, _, slow] if slow == "Cancelled" || slow == "DeadlineExceeded") {
        return Err(format!("expected a deadline, found {visits:?}").into());
    }
    Ok(format!("{visits:?}"))
}

/// What a generator writes for a service with one method.
#[derive(Clone)]
struct Visits {
    db: SimDatabase,
}

impl ::tonic::server::NamedService for Visits {
    const NAME: &'static str = "visits.Visits";
}

impl ::tonic::server::UnaryService<String> for Visits {
    type Response = u64;
    type Future = ::tonic::codegen::BoxFuture<::tonic::Response<u64>, ::tonic::Status>;

    fn call(&mut self, request: ::tonic::Request<String>) -> Self::Future {
        let (db, page) = (self.db.clone(), request.into_inner());
        Box::pin(async move {
            if page == "slow" {
                tokio::time::sleep(Duration::from_secs(3600)).await;
            }
            let visits = visit(&db, &page).await;
            let internal = |error: FdbBindingError| ::tonic::Status::internal(error.to_string());
            Ok(::tonic::Response::new(visits.map_err(internal)?))
        })
    }
}

impl Service<http::Request<::tonic::body::Body>> for Visits {
    type Response = http::Response<::tonic::body::Body>;
    type Error = Infallible;
    type Future = ::tonic::codegen::BoxFuture<Self::Response, Infallible>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<::tonic::body::Body>) -> Self::Future {
        let method = self.clone();
        Box::pin(async move {
            let codec = tonic_prost::ProstCodec::<u64, String>::default();
            Ok(::tonic::server::Grpc::new(codec)
                .unary(method, request)
                .await)
        })
    }
}
