//! A page of Markdown, as far as links are concerned.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};

/// What a page leads to, and what leads into it.
#[derive(Default)]
pub(super) struct Page {
    /// The ids of its headings, which GitHub and mdBook make alike.
    pub(super) anchors: BTreeSet<String>,
    pub(super) links: Vec<Link>,
    /// Whether it has a block that claims to be Rust.
    pub(super) has_rust: bool,
}

/// A link or an image.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Link {
    pub(super) target: String,
    /// From 1.
    pub(super) line: usize,
    /// Where it stands in the text of the page, all of it.
    pub(super) place: Range<usize>,
    /// Where that stands of it which is read.
    pub(super) shown: Range<usize>,
}

impl Page {
    pub(super) fn read(text: &str) -> Self {
        let mut page = Self::default();
        let mut taken = BTreeMap::new();
        let mut heading: Option<String> = None;
        let mut open: Option<Link> = None;
        let parser = Parser::new_ext(text, Options::ENABLE_TABLES | Options::ENABLE_FOOTNOTES);
        for (event, place) in parser.into_offset_iter() {
            if let Some(link) = &mut open
                && !matches!(event, Event::End(TagEnd::Link | TagEnd::Image))
            {
                let shown = &mut link.shown;
                *shown = shown.start.min(place.start)..shown.end.max(place.end);
            }
            match event {
                Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
                Event::End(TagEnd::Heading(_)) => {
                    let id = slug(&heading.take().unwrap_or_default());
                    page.anchors.insert(distinct(id, &mut taken));
                }
                Event::Text(words) | Event::Code(words) => {
                    if let Some(heading) = &mut heading {
                        heading.push_str(&words);
                    }
                }
                Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(info))) => {
                    page.has_rust |= info.split([',', ' ']).next() == Some("rust");
                }
                Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                    open = Some(Link {
                        target: dest_url.into_string(),
                        line: 1 + text[..place.start].matches('\n').count(),
                        // Widened by what stands in it.
                        shown: place.end..place.start,
                        place,
                    });
                }
                Event::End(TagEnd::Link | TagEnd::Image) => page.links.extend(open.take()),
                _ => {}
            }
        }
        page
    }
}

/// The id of a heading: its letters, digits, hyphens and underscores in lower case, with a hyphen for
/// each space.
fn slug(heading: &str) -> String {
    let id = heading.trim().chars().filter_map(|sign| match sign {
        ' ' => Some('-'),
        '-' | '_' => Some(sign),
        sign => sign.is_alphanumeric().then_some(sign),
    });
    id.flat_map(char::to_lowercase).collect()
}

/// Of several headings that read the same, all but the first get a number.
fn distinct(id: String, taken: &mut BTreeMap<String, usize>) -> String {
    let before = taken.entry(id.clone()).or_default();
    let number = *before;
    *before += 1;
    match number {
        0 => id,
        number => format!("{id}-{number}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headings_have_the_ids_that_links_name() {
        let page = Page::read("# The `coord` line, and more\n## Why?\ntext\n\n## Why?\n");

        let ids: Vec<_> = page.anchors.iter().map(String::as_str).collect();
        assert_eq!(ids, ["the-coord-line-and-more", "why", "why-1"]);
    }

    #[test]
    fn a_link_is_found_with_its_line_and_what_is_read_of_it() {
        let text = "one\n\n| a | b |\n|---|---|\n| x | see [the *page*](b.md#c) |\n";

        let page = Page::read(text);

        let [link] = page.links.as_slice() else {
            panic!("one link: {:?}", page.links);
        };
        assert_eq!((link.target.as_str(), link.line), ("b.md#c", 5));
        assert_eq!(&text[link.place.clone()], "[the *page*](b.md#c)");
        assert_eq!(&text[link.shown.clone()], "the *page*");
    }

    #[test]
    fn what_stands_in_code_is_no_link() {
        let page = Page::read("`[a](b.md)`\n\n```text\n[a](b.md)\n```\n");

        assert_eq!(page.links, []);
        assert!(!page.has_rust);
        assert!(Page::read("```rust,no_run\nlet a = 1;\n```\n").has_rust);
    }
}
