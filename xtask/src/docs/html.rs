//! The links of the book as it was built.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::{Checked, Fault, files, is_elsewhere, read, resolved, split};
use crate::error::Result;

/// Pages that are not read by themselves: all of them in one, and what a server shows in place of one
/// that is not there, whose links begin at its root.
const NO_PAGES: [&str; 2] = ["print.html", "404.html"];

/// Checks every page in a folder.
///
/// # Errors
/// `Missing` if one cannot be read.
pub(super) fn check(folder: &Path) -> Result<Checked> {
    let mut pages = BTreeMap::new();
    for file in files(folder, "html")? {
        if !NO_PAGES.iter().any(|name| file == Path::new(name)) {
            let text = read(&folder.join(&file))?;
            let ids: BTreeSet<_> = values(&text, "id").map(str::to_owned).collect();
            // How it looks is mdBook's business; Debian's leaves its fonts to the system.
            let is_style = |target: &&str| Path::new(target).extension() == Some("css".as_ref());
            let links = values(&text, "href").filter(|target| !is_style(target));
            let links: Vec<_> = links.map(str::to_owned).collect();
            pages.insert(file, (ids, links));
        }
    }
    let mut checked = Checked {
        pages: pages.len(),
        ..Checked::default()
    };
    for (file, (_, links)) in &pages {
        checked.links += links.len();
        for target in links {
            let ids = |to: &Path| pages.get(to).map(|(ids, _)| ids);
            if !leads(file, target, ids, |to| folder.join(to).exists()) {
                checked.faults.push(Fault {
                    file: file.clone(),
                    line: 0,
                    what: format!("{target} leads nowhere in the book"),
                });
            }
        }
    }
    Ok(checked)
}

fn leads<'page>(
    file: &Path,
    target: &str,
    ids: impl Fn(&Path) -> Option<&'page BTreeSet<String>>,
    exists: impl Fn(&Path) -> bool,
) -> bool {
    if is_elsewhere(target) {
        return true;
    }
    let (path, anchor) = split(target);
    let to = if path.is_empty() {
        Some(PathBuf::from(file))
    } else {
        resolved(file.parent().unwrap_or(file), path)
    };
    let Some(to) = to.filter(|to| exists(to)) else {
        return false;
    };
    match (anchor, ids(&to)) {
        (None | Some(""), _) => true,
        (Some(anchor), Some(ids)) => ids.contains(anchor),
        (Some(_), None) => false,
    }
}

/// The values of an attribute, as mdBook writes them.
fn values<'text>(text: &'text str, attribute: &str) -> impl Iterator<Item = &'text str> {
    let opening = format!(" {attribute}=\"");
    let mut rest = text;
    std::iter::from_fn(move || {
        let (_, after) = rest.split_once(&opening)?;
        let (value, after) = after.split_once('"')?;
        rest = after;
        Some(value)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_values_of_an_attribute_are_found() {
        let text = r##"<a href="a.html">x</a> <h2 id="b"><a class="header" href="#b">b</a></h2>"##;

        assert_eq!(values(text, "href").collect::<Vec<_>>(), ["a.html", "#b"]);
        assert_eq!(values(text, "id").collect::<Vec<_>>(), ["b"]);
    }

    #[test]
    fn a_link_leads_to_a_page_or_to_a_place_on_it() {
        let here = BTreeSet::from(["b".to_owned()]);
        let leads = |target| {
            let ids = |to: &Path| (to == Path::new("x/a.html")).then_some(&here);
            leads(Path::new("x/a.html"), target, ids, |to| {
                [Path::new("x/a.html"), Path::new("c.css")].contains(&to)
            })
        };
        for target in ["a.html", "#b", "a.html#b", "../c.css", "#", "https://a/b"] {
            assert!(leads(target), "{target}");
        }
        for target in ["b.html", "#c", "a.html#c", "../c.css#b", "../../d"] {
            assert!(!leads(target), "{target}");
        }
    }
}
