//! Other threads: what they send arrives at home.

use super::*;

#[test]
fn a_wake_up_from_another_thread_arrives_at_home() {
    let _clean = NothingLeft;
    let log = Log::default();
    let (sender, receiver) = futures::channel::oneshot::channel();
    let events = log.clone();
    fdb_spawn(async move {
        let number: i32 = receiver.await.expect("sent");
        events.note(format!("got {number}"));
    });
    on_another_thread(move || sender.send(7).expect("waiting"));
    assert_eq!(
        log.take(),
        Vec::<String>::new(),
        "nothing runs on the other thread"
    );
    poll_pending_tasks();
    assert_eq!(log.take(), ["got 7"]);
}

#[test]
fn the_last_reference_given_up_on_another_thread_drops_the_future_at_home() {
    let _clean = NothingLeft;
    let log = Log::default();
    let kept: Rc<RefCell<Option<Waker>>> = Rc::default();
    let keep = kept.clone();
    let token = Token(log.clone(), "future");
    fdb_spawn(async move {
        let _token = token;
        std::future::poll_fn(move |context| {
            *keep.borrow_mut() = Some(context.waker().clone());
            Poll::<()>::Pending
        })
        .await;
    });
    let waker = kept.take().expect("a waker");
    on_another_thread(move || drop(waker));
    assert_eq!(log.take(), Vec::<String>::new());
    poll_pending_tasks();
    assert_eq!(log.take(), ["drop future"]);
}

#[test]
fn tasks_left_in_the_queue_are_dropped_when_their_thread_ends() {
    let _clean = NothingLeft;
    let dropped = std::sync::Arc::new(std::sync::atomic::AtomicU32::new(0));
    let count = dropped.clone();
    on_another_thread(move || {
        struct Count(std::sync::Arc<std::sync::atomic::AtomicU32>);
        impl Drop for Count {
            fn drop(&mut self) {
                self.0.fetch_add(1, Ordering::Relaxed);
            }
        }
        let kept: Rc<RefCell<Option<Waker>>> = Rc::default();
        let keep = kept.clone();
        let token = Count(count);
        fdb_spawn(async move {
            let _token = token;
            std::future::poll_fn(move |context| {
                *keep.borrow_mut() = Some(context.waker().clone());
                Poll::<()>::Pending
            })
            .await;
        });
        kept.take().expect("a waker").wake();
    });
    assert_eq!(dropped.load(Ordering::Relaxed), 1);
}
