//! The page as a text: whole, the same every time, and closed to what a record holds. What a
//! person can do with it is tried in a browser, by `conformance/page`.

use shaketable_explain::{Evidence, Explanation, Finding, Proof};
use shaketable_record::{
    Answer, Attempt, Bytes, Call, Decision, End, Event, Header, Operation, Phase, Place, Record,
    Verdict,
};

const HOSTILE: &str = "</script><script>alert(1)</script><!-- {{data}} \u{2028}\u{202e}\0\"'&";

fn record(text: &str) -> Record {
    let bytes = Bytes::whole(text.as_bytes());
    Record {
        header: Header {
            file: text.into(),
            cluster: text.into(),
            reproduce: Some(text.into()),
            clients: 1,
            seed: u64::MAX,
            verdict: Verdict {
                message: Some(text.into()),
                ..Verdict::default()
            },
            directories: vec![(bytes.clone(), vec![text.into()])],
            ..Header::default()
        },
        decisions: vec![Decision {
            time: 1.0,
            name: text.into(),
            outcome: Some(text.into()),
            happened: true,
            by_chance: true,
        }],
        places: vec![Place {
            file: text.into(),
            line: 1,
            function: text.into(),
        }],
        phases: vec![Phase {
            client: 0,
            test: text.into(),
            workload: text.into(),
            phase: text.into(),
            begun: 0.0,
            ended: None,
            error: Some(text.into()),
        }],
        attempts: vec![Attempt {
            client: Some(0),
            phase: Some(0),
            transaction: 0,
            number: 1,
            retries: None,
            begun: 1.0,
            ended: None,
            read_version: None,
            commit: None,
            end: End::Open,
        }],
        operations: vec![Operation {
            attempt: 0,
            asked: 1.0,
            answered: None,
            place: Some(0),
            call: Call::Get {
                key: bytes.clone(),
                snapshot: false,
            },
            answer: Answer::Value(Some(bytes)),
        }],
        committed: Vec::new(),
        events: vec![Event {
            time: 0.5,
            name: text.into(),
            machine: text.into(),
            fault: true,
            details: vec![(text.into(), text.into())],
        }],
    }
}

/// A finding whose evidence is beyond the end of the record.
fn explanation(text: &str) -> Explanation {
    let beyond = [
        Evidence::Operation(u32::MAX),
        Evidence::Attempt(u32::MAX),
        Evidence::Committed(u32::MAX),
    ];
    let proof = beyond.map(|at| Proof {
        at,
        note: text.into(),
    });
    Explanation {
        findings: vec![Finding {
            name: "hostile",
            sentence: text.into(),
            proof: proof.into(),
            advice: text.into(),
            times: 1,
        }],
        stories: Vec::new(),
    }
}

#[test]
fn nothing_in_a_record_becomes_markup() {
    let page = shaketable_page::html(&record(HOSTILE), &explanation(HOSTILE));
    let plain = shaketable_page::html(&record("a"), &explanation("a"));
    for markup in ["<script", "</script", "<!--"] {
        let count = |page: &str| page.matches(markup).count();
        assert_eq!(count(&page), count(&plain), "{markup}");
    }
    assert!(!page.contains(['\0', '\u{202e}', '\u{2028}']));
}

#[test]
fn a_page_fetches_nothing_and_allows_nothing() {
    let page = shaketable_page::html(&Record::default(), &Explanation::default());
    assert!(page.contains("default-src 'none'; script-src 'sha256-"));
    assert!(!page.contains("unsafe-inline"));
    for address in ["http://", "https://", "//cdn", "@import", "url("] {
        assert!(!page.contains(address), "{address}");
    }
}

#[test]
fn the_same_record_makes_the_same_page() {
    let page = || shaketable_page::html(&record("key"), &explanation("why"));
    assert_eq!(page(), page());
}

#[test]
fn a_seed_of_64_bits_keeps_its_digits() {
    let page = shaketable_page::html(&record("a"), &Explanation::default());
    assert!(page.contains("\"seed\":\"18446744073709551615\""));
}
