use proptest::prelude::*;

use super::*;

fn name(text: &str) -> Name {
    Name::new(text).expect("a valid name")
}

fn space() -> KeySpace {
    KeySpace::new("app:test").expect("a valid prefix")
}

#[test]
fn a_prefix_with_braces_does_not_move_the_hash_tag() {
    let keys = KeySpace::new("{all}").expect("a valid prefix");

    let key = keys.key("lock", &[&name("a")]);

    assert_eq!(key.as_str(), "%7Ball%7D:{lock:a}");
    assert_eq!(key.hash_tag(), "lock:a");
}

#[test]
fn a_part_and_a_channel_stay_in_the_slot_of_their_key() {
    let key = space().key("lock", &[&name("a")]);

    assert_eq!(key.part("wake").hash_tag(), key.hash_tag());
    assert_eq!(key.part("wake").channel(3).hash_tag(), key.hash_tag());
    let of = |text| key.part_for("seen", &name(text));
    assert_eq!(of("{b}:c").as_str(), "app:test:{lock:a}:seen:%7Bb%7D%3Ac");
    assert_eq!(of("{b}:c").hash_tag(), key.hash_tag());
    assert_ne!(key.channel(0), key.channel(1));
}

#[test]
fn a_pattern_takes_glob_characters_in_names_literally() {
    assert_eq!(
        space().pattern("lease", "a*").as_str(),
        "app:test:{lease:a%2A*}"
    );
}

#[test]
fn a_pattern_within_names_matches_none_whose_name_only_begins_like_them() {
    let pattern = space().pattern_within("cache", &[&name("users")], "4");

    assert_eq!(pattern.as_str(), "app:test:{cache:users:4*}");
    assert_eq!(pattern.start(), "app:test:{cache:users:4");
    let all = space().pattern_within("cache", &[&name("users")], "");
    let other = space().key("cache", &[&name("users2"), &name("4")]);
    assert!(!other.as_str().starts_with(all.start()));
}

#[test]
fn parts_beside_a_key_are_not_listed_as_names() {
    let key = space().key("lease", &[&name("a")]);

    assert_eq!(space().names("lease", key.as_str()), Some(vec![name("a")]));
    assert_eq!(space().names("lease", key.part("record").as_str()), None);
}

proptest! {
    #[test]
    fn a_key_has_one_hash_tag_and_gives_its_names_back(
        prefix in ".{1,20}", tenant in proptest::option::of(".{1,20}"), first in ".{1,20}", second in ".{1,20}",
    ) {
        let keys = KeySpace::new(&prefix).expect("a valid prefix");
        let keys = tenant.as_ref().map_or(keys.clone(), |tenant| keys.tenant(&name(tenant)));
        let names = [name(&first), name(&second)];
        let key = keys.key("kind", &[&names[0], &names[1]]);

        prop_assert_eq!(key.as_str().matches('{').count(), 1);
        prop_assert_eq!(key.as_str().matches('}').count(), 1);
        prop_assert!(!key.as_str().contains(char::is_whitespace));
        prop_assert_eq!(keys.names("kind", key.as_str()), Some(names.to_vec()));
    }

    #[test]
    fn two_different_sets_of_names_never_share_a_key(
        one in (proptest::option::of("[a:@%{}]{1,4}"), "[a:@%{}]{1,4}"),
        other in (proptest::option::of("[a:@%{}]{1,4}"), "[a:@%{}]{1,4}"),
    ) {
        let key = |(tenant, text): &(Option<String>, String)| {
            let keys = space();
            let keys = tenant.as_ref().map_or(keys.clone(), |tenant| keys.tenant(&name(tenant)));
            keys.key("lock", &[&name(text)])
        };

        prop_assert_eq!(one == other, key(&one) == key(&other));
    }

    #[test]
    fn a_pattern_matches_by_the_start_of_the_name(text in ".{1,8}", cut in 0_usize..8) {
        let start: String = text.chars().take(cut).collect();
        let key = space().key("lease", &[&name(&text)]);
        let pattern = space().pattern("lease", &start);

        let literal = pattern.as_str().strip_suffix("*}").expect("ends in a star");
        prop_assert!(key.as_str().starts_with(literal));
    }
}
