//! A source file as a flat list of tokens: without comments, and with text in quotes told from
//! code.

use proc_macro2::{Delimiter, LexError, TokenStream, TokenTree};

/// A word, a sign, a bracket or a literal.
pub(super) struct Token {
    pub(super) line: usize,
    /// As it stands in the file; a string literal has its quotes.
    pub(super) text: String,
}

/// Reads a file.
///
/// # Errors
/// Where it is not Rust.
pub(super) fn tokens(source: &str) -> Result<Vec<Token>, LexError> {
    let mut tokens = Vec::new();
    flatten(source.parse()?, &mut tokens);
    Ok(tokens)
}

/// Where a sequence of tokens starts, each time it occurs.
pub(super) fn find(tokens: &[Token], sequence: &[&str]) -> Vec<usize> {
    let here = |window: &[Token]| {
        window
            .iter()
            .zip(sequence)
            .all(|(token, text)| token.text == *text)
    };
    let windows = tokens.windows(sequence.len()).enumerate();
    windows
        .filter(|(_, window)| here(window))
        .map(|(start, _)| start)
        .collect()
}

/// What stands between an opening bracket and the closing one that belongs to it.
pub(super) fn inside(tokens: &[Token], open: usize) -> &[Token] {
    let mut depth = 0_usize;
    for (index, token) in tokens.iter().enumerate().skip(open) {
        match token.text.as_str() {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 {
            return tokens.get(open + 1..index).unwrap_or_default();
        }
    }
    &[]
}

fn flatten(stream: TokenStream, tokens: &mut Vec<Token>) {
    for tree in stream {
        let line = tree.span().start().line;
        match tree {
            TokenTree::Group(group) => {
                let (open, close) = match group.delimiter() {
                    Delimiter::Parenthesis => ("(", ")"),
                    Delimiter::Brace => ("{", "}"),
                    Delimiter::Bracket => ("[", "]"),
                    Delimiter::None => ("", ""),
                };
                tokens.push(Token {
                    line,
                    text: open.into(),
                });
                flatten(group.stream(), tokens);
                let line = group.span_close().start().line;
                tokens.push(Token {
                    line,
                    text: close.into(),
                });
            }
            other => tokens.push(Token {
                line,
                text: other.to_string(),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_are_left_out_and_quotes_kept() {
        let source = "// one { two\nfn a() { /* three */ b(\"four\") }";

        let tokens = tokens(source).expect("it is Rust");

        let words: Vec<_> = tokens.iter().map(|token| token.text.as_str()).collect();
        assert_eq!(words.join(" "), "fn a ( ) { b ( \"four\" ) }");
        assert!(tokens.iter().all(|token| token.line == 2));
    }

    #[test]
    fn the_inside_of_a_bracket_ends_at_its_own_end() {
        let tokens = tokens("a(b(c), [d]) e").expect("it is Rust");

        let words: Vec<_> = inside(&tokens, 1)
            .iter()
            .map(|token| token.text.as_str())
            .collect();

        assert_eq!(words.join(" "), "b ( c ) , [ d ]");
    }
}
