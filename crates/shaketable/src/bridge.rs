//! Events and spans of the crate `tracing`, in the simulation's trace.
//!
//! The first workload of a library makes this the program's subscriber, unless there is one
//! already. It records only what happens inside a simulation, so it is harmless in a test program
//! that does other things as well. A simulation has one thread: spans are kept per thread.
//!
//! An event becomes `WorkloadLog` with `Level`, `Target`, `Client`, `Span` (the path, outermost
//! first, with fields), `Message`, and the event's own fields. `SHAKETABLE_LOG` chooses the level:
//! `off`, `error`, `warn`, `info` (the default), `debug`, `trace`. An `error!` does not fail the
//! run: code that is being shaken has good reasons to complain. To fail, panic, return an error, or
//! use `always!`.

use crate::context::{Severity, WorkloadContext};
use crate::executor::queue::is_attached;
use crate::stderr::complain;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::{Debug, Write};
use std::sync::Once;
use tracing_core::field::{Field, Visit};
use tracing_core::span::{Attributes, Current, Id, Record};
use tracing_core::{Dispatch, Event, Level, LevelFilter, Metadata, Subscriber, dispatcher};

/// Makes the bridge this program's subscriber, once.
pub(crate) fn install() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let text = std::env::var("SHAKETABLE_LOG").unwrap_or_default();
        let level = match text.as_str() {
            "" => LevelFilter::INFO,
            text => text.parse().unwrap_or_else(|_| {
                complain!(
                    "SHAKETABLE_LOG: expected off, error, warn, info, debug or trace, found `{text}`; \
                     it is info now"
                );
                LevelFilter::INFO
            }),
        };
        // Fails if the program has a subscriber of its own, and then that one is what the author
        // wants.
        let _ = dispatcher::set_global_default(Dispatch::new(Bridge { level }));
    });
}

struct Bridge {
    level: LevelFilter,
}

thread_local! {
    static SPANS: RefCell<Spans> = const { RefCell::new(Spans::new()) };
}

struct Spans {
    last: u64,
    open: BTreeMap<u64, Span>,
    entered: Vec<u64>,
}

struct Span {
    metadata: &'static Metadata<'static>,
    fields: Fields,
    parent: Option<u64>,
    references: usize,
}

impl Spans {
    const fn new() -> Self {
        Spans {
            last: 0,
            open: BTreeMap::new(),
            entered: Vec::new(),
        }
    }

    /// The span and those around it, outermost first.
    fn path(&self, innermost: Option<u64>) -> String {
        let around = |number: &u64| self.open.get(number)?.parent;
        let chain: Vec<u64> = std::iter::successors(innermost, around).collect();
        let mut path = String::new();
        for span in chain
            .iter()
            .rev()
            .filter_map(|number| self.open.get(number))
        {
            if !path.is_empty() {
                path.push(':');
            }
            path.push_str(span.metadata.name());
            if !span.fields.0.is_empty() {
                let fields = span.fields.0.iter();
                let fields: Vec<String> = fields.map(|(k, v)| format!("{k}={v}")).collect();
                let _ = write!(path, "{{{}}}", fields.join(" "));
            }
        }
        path
    }

    /// Gives up a reference; closes the span, and its hold on the one around it, with the last.
    fn release(&mut self, number: u64) -> bool {
        let Some(span) = self.open.get_mut(&number) else {
            return false;
        };
        span.references -= 1;
        if span.references > 0 {
            return false;
        }
        let parent = span.parent;
        self.open.remove(&number);
        if let Some(parent) = parent {
            self.release(parent);
        }
        true
    }
}

impl Subscriber for Bridge {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= self.level && is_attached() && WorkloadContext::current().is_some()
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(self.level)
    }

    fn new_span(&self, attributes: &Attributes<'_>) -> Id {
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        SPANS.with_borrow_mut(|spans| {
            let parent = match attributes.parent() {
                Some(parent) => Some(parent.into_u64()),
                None if attributes.is_contextual() => spans.entered.last().copied(),
                None => None,
            };
            if let Some(parent) = parent.and_then(|parent| spans.open.get_mut(&parent)) {
                parent.references += 1;
            }
            spans.last += 1;
            let span = Span {
                metadata: attributes.metadata(),
                fields,
                parent,
                references: 1,
            };
            spans.open.insert(spans.last, span);
            Id::from_u64(spans.last)
        })
    }

    fn record(&self, id: &Id, values: &Record<'_>) {
        let mut fields = Fields::default();
        values.record(&mut fields);
        SPANS.with_borrow_mut(|spans| {
            if let Some(span) = spans.open.get_mut(&id.into_u64()) {
                span.fields.0.extend(fields.0);
            }
        });
    }

    fn record_follows_from(&self, _span: &Id, _follows: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let Some(context) = WorkloadContext::current() else {
            return;
        };
        let path = SPANS.with_borrow(|spans| {
            let innermost = match event.parent() {
                Some(parent) => Some(parent.into_u64()),
                None if event.is_contextual() => spans.entered.last().copied(),
                None => None,
            };
            spans.path(innermost)
        });
        let mut fields = Fields::default();
        event.record(&mut fields);
        let metadata = event.metadata();
        let mut details = vec![
            ("Level".to_owned(), metadata.level().to_string()),
            ("Target".to_owned(), metadata.target().to_owned()),
            ("Client".to_owned(), context.client_id().to_string()),
        ];
        if !path.is_empty() {
            details.push(("Span".to_owned(), path));
        }
        details.extend(fields.0);
        context.trace(severity(metadata.level()), "WorkloadLog", &details);
    }

    fn enter(&self, span: &Id) {
        SPANS.with_borrow_mut(|spans| spans.entered.push(span.into_u64()));
    }

    fn exit(&self, span: &Id) {
        SPANS.with_borrow_mut(|spans| {
            let number = span.into_u64();
            // Spans may be left in another order than they were entered in.
            if let Some(index) = spans.entered.iter().rposition(|entered| *entered == number) {
                spans.entered.remove(index);
            }
        });
    }

    fn clone_span(&self, id: &Id) -> Id {
        SPANS.with_borrow_mut(|spans| {
            if let Some(span) = spans.open.get_mut(&id.into_u64()) {
                span.references += 1;
            }
        });
        id.clone()
    }

    fn try_close(&self, id: Id) -> bool {
        SPANS
            .try_with(|spans| spans.borrow_mut().release(id.into_u64()))
            .unwrap_or(false)
    }

    fn current_span(&self) -> Current {
        SPANS.with_borrow(|spans| {
            let innermost = spans.entered.last();
            match innermost.and_then(|number| Some((number, spans.open.get(number)?))) {
                Some((number, span)) => Current::new(Id::from_u64(*number), span.metadata),
                None => Current::none(),
            }
        })
    }
}

fn severity(level: &Level) -> Severity {
    match *level {
        Level::ERROR => Severity::WarnAlways,
        Level::WARN => Severity::Warn,
        Level::INFO => Severity::Info,
        _ => Severity::Debug,
    }
}

/// Fields as text, in their order.
#[derive(Default)]
struct Fields(Vec<(String, String)>);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.push((field.name().to_owned(), format!("{value:?}")));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.push((field.name().to_owned(), value.to_owned()));
    }
}
