//! The attribute `#[shaketable::sim_test]`.
//!
//! It only rearranges tokens: the function stays as it was written, inside a test that hands it to
//! `shaketable::Simulation`. So it needs no parser of the language, and the compiler reports what
//! is wrong with the function at the function's own place.
//!
//! It is not called `test`: every public name of a crate comes with a glob import of it, and then a
//! plain `#[test]` beside `use shaketable::*` would be ambiguous.

use proc_macro::{Delimiter, Group, Ident, Span, TokenStream, TokenTree};

/// Makes an `async fn` a test that runs in the embedded simulation.
///
/// The function takes nothing, the database, or the database and the context; it returns nothing or
/// a `Result`. The attribute's arguments are calls of the methods of `shaketable::Simulation`:
/// `seeds = 0..200`, `clients = 5`, `without_regressions`. A crate that renames its dependency adds
/// `crate = its_name`.
#[proc_macro_attribute]
pub fn sim_test(arguments: TokenStream, item: TokenStream) -> TokenStream {
    match expand(arguments, item) {
        Ok(tokens) => tokens,
        Err(error) => error.into_tokens(),
    }
}

struct Error {
    message: &'static str,
    span: Span,
}

impl Error {
    fn new(message: &'static str, span: Span) -> Error {
        Error { message, span }
    }

    fn into_tokens(self) -> TokenStream {
        let text = format!("::core::compile_error!({:?});", self.message);
        respan(parse(&text), self.span)
    }
}

fn expand(arguments: TokenStream, item: TokenStream) -> Result<TokenStream, Error> {
    let function = Function::find(item)?;
    let mut krate = parse("::shaketable");
    let mut calls = TokenStream::new();
    for argument in split_at_commas(arguments) {
        let (name, value) = name_and_value(argument)?;
        if name.to_string() == "crate" {
            krate = value;
        } else {
            calls.extend(parse("."));
            calls.extend([TokenTree::from(name)]);
            calls.extend(parenthesised(value));
        }
    }
    let name = &function.name;
    let run = match function.parameters {
        0 => "async |_database, _context|",
        1 => "async |database, _context|",
        _ => "async |database, context|",
    };
    let arguments = match function.parameters {
        0 => "()",
        1 => "(database)",
        _ => "(database, context)",
    };

    // #[test] fn name() { async fn name(…) {…} Simulation::new().….test(async |…| name(…).await) }
    let mut body = function.inner;
    body.extend(krate);
    body.extend(parse("::Simulation::new()"));
    body.extend(calls);
    body.extend(parse(".test"));
    let mut closure = parse(run);
    closure.extend([TokenTree::from(name.clone())]);
    closure.extend(parse(arguments));
    closure.extend(parse(".await"));
    body.extend(parenthesised(closure));
    body.extend(parse(";"));

    let mut output = parse("#[::core::prelude::v1::test]");
    output.extend(function.attributes);
    output.extend(parse("fn"));
    output.extend([TokenTree::from(name.clone())]);
    output.extend(parse("()"));
    output.extend([TokenTree::from(Group::new(Delimiter::Brace, body))]);
    Ok(output)
}

/// The parts of the function that matter here.
struct Function {
    /// `#[ignore]`, documentation and the like: they belong to the test.
    attributes: TokenStream,
    name: Ident,
    parameters: usize,
    /// The function itself, without its attributes.
    inner: TokenStream,
}

impl Function {
    fn find(item: TokenStream) -> Result<Function, Error> {
        let tokens: Vec<TokenTree> = item.into_iter().collect();
        let mut start = 0;
        while is_punct(tokens.get(start), '#') {
            start += 2;
        }
        let attributes = tokens[..start.min(tokens.len())].iter().cloned().collect();
        let rest = &tokens[start.min(tokens.len())..];
        let is_word = |token: &TokenTree, word: &str| matches!(token, TokenTree::Ident(ident) if ident.to_string() == word);
        let Some(keyword) = rest.iter().position(|token| is_word(token, "fn")) else {
            return Err(Error::new(
                "expected an async function: `#[shaketable::sim_test] async fn name(db: SimDatabase) { … }`",
                Span::call_site(),
            ));
        };
        if !rest[..keyword].iter().any(|token| is_word(token, "async")) {
            return Err(Error::new(
                "expected an `async fn`: a simulation runs it as a task",
                rest[keyword].span(),
            ));
        }
        let Some(TokenTree::Ident(name)) = rest.get(keyword + 1) else {
            return Err(Error::new(
                "expected a function with a name",
                Span::call_site(),
            ));
        };
        let parameters = match rest.get(keyword + 2) {
            Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Parenthesis => {
                split_at_commas(group.stream()).len()
            }
            _ => {
                return Err(Error::new(
                    "expected a function without generic parameters",
                    name.span(),
                ));
            }
        };
        if parameters > 2 {
            return Err(Error::new(
                "expected at most two parameters, the database and the context: `(db: SimDatabase, context: WorkloadContext)`",
                name.span(),
            ));
        }
        Ok(Function {
            attributes,
            name: name.clone(),
            parameters,
            inner: rest.iter().cloned().collect(),
        })
    }
}

/// Splits at the commas outside all brackets, including those of generic arguments.
fn split_at_commas(tokens: TokenStream) -> Vec<Vec<TokenTree>> {
    let mut parts = vec![Vec::new()];
    let mut depth = 0_i32;
    let mut after_dash = false;
    for token in tokens {
        match &token {
            TokenTree::Punct(punct) if punct.as_char() == ',' && depth == 0 => {
                parts.push(Vec::new());
                continue;
            }
            TokenTree::Punct(punct) => {
                match punct.as_char() {
                    '<' => depth += 1,
                    '>' if !after_dash => depth -= 1,
                    _ => {}
                }
                after_dash = matches!(punct.as_char(), '-' | '=');
            }
            _ => after_dash = false,
        }
        parts.last_mut().expect("never empty").push(token);
    }
    parts.retain(|part| !part.is_empty());
    parts
}

fn name_and_value(argument: Vec<TokenTree>) -> Result<(Ident, TokenStream), Error> {
    let span = argument[0].span();
    let mut tokens = argument.into_iter();
    match (tokens.next(), tokens.next()) {
        (Some(TokenTree::Ident(name)), None) => Ok((name, TokenStream::new())),
        (Some(TokenTree::Ident(name)), Some(TokenTree::Punct(equals)))
            if equals.as_char() == '=' =>
        {
            let value: TokenStream = tokens.collect();
            if value.is_empty() {
                return Err(Error::new("expected a value after `=`", span));
            }
            Ok((name, value))
        }
        _ => Err(Error::new(
            "expected `name = value`, where `name` is a method of shaketable::Simulation: `seeds = 0..200, clients = 5`",
            span,
        )),
    }
}

fn is_punct(token: Option<&TokenTree>, character: char) -> bool {
    matches!(token, Some(TokenTree::Punct(punct)) if punct.as_char() == character)
}

fn parenthesised(tokens: TokenStream) -> TokenStream {
    TokenTree::from(Group::new(Delimiter::Parenthesis, tokens)).into()
}

fn parse(text: &str) -> TokenStream {
    text.parse().expect("this very file wrote it")
}

fn respan(tokens: TokenStream, span: Span) -> TokenStream {
    tokens
        .into_iter()
        .map(|mut token| {
            token.set_span(span);
            token
        })
        .collect()
}
