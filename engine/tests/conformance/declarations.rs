//! The search attributes that a namespace declares.

use coord_engine::model::Namespace;
use coord_engine::store::{AttributeKind, Declaration, Declarations};

use crate::stage::Stage;

fn named(name: &str) -> Namespace {
    Namespace::new(name).expect("a name")
}

fn declaration(namespace: &str, name: &str, kind: AttributeKind) -> Declaration {
    Declaration::new(named(namespace), name, kind).expect("a declaration")
}

pub(crate) async fn a_search_attribute_is_declared_once_until_it_is_withdrawn(stage: Stage) {
    let declare = async |namespace: &str, name: &str, kind| {
        let new = declaration(namespace, name, kind);
        stage
            .store
            .declare_attribute(&new)
            .await
            .expect("an answer")
    };
    let withdraw = async |namespace: &str, name: &str| {
        let namespace = named(namespace);
        let withdrawn = stage.other.withdraw_attribute(&namespace, name).await;
        withdrawn.expect("an answer")
    };
    let declared = async |namespace: &str| {
        let declared = stage.other.declared_attributes(&named(namespace)).await;
        declared.expect("an answer")
    };

    for kind in AttributeKind::ALL {
        assert!(declare("shop", kind.word(), kind).await, "{kind:?}");
    }
    let again = declare("shop", "keyword", AttributeKind::Bool).await;
    // Another case is another name, and another namespace has its own.
    let cased = declare("shop", "Keyword", AttributeKind::Int).await;
    let elsewhere = declare("attic", "keyword", AttributeKind::Bool).await;

    assert_eq!((again, cased, elsewhere), (false, true, true));
    let kinds = AttributeKind::ALL.map(|kind| (kind.word().to_owned(), kind));
    let mut expected = Declarations::from(kinds);
    expected.insert("Keyword".to_owned(), AttributeKind::Int);
    assert_eq!(declared("shop").await, expected);

    assert!(withdraw("shop", "keyword").await);
    assert!(!withdraw("shop", "keyword").await, "it is gone");
    assert!(!withdraw("nobody", "keyword").await);
    assert!(!declared("shop").await.contains_key("keyword"));
    let kept = Declarations::from([("keyword".to_owned(), AttributeKind::Bool)]);
    assert_eq!(declared("attic").await, kept);
    assert!(declare("shop", "keyword", AttributeKind::Bool).await);
}

pub(crate) async fn a_namespace_declares_so_many_search_attributes_and_no_more(stage: Stage) {
    let declare = async |namespace: &str, number: u32| {
        let new = declaration(namespace, &format!("a{number}"), AttributeKind::Int);
        stage
            .store
            .declare_attribute(&new)
            .await
            .expect("an answer")
    };

    for number in 0..100 {
        assert!(declare("shop", number).await, "{number}");
    }
    let beyond = declare("shop", 100).await;
    let elsewhere = declare("attic", 100).await;
    let withdrawn = stage.store.withdraw_attribute(&named("shop"), "a7").await;
    let in_its_place = declare("shop", 100).await;

    assert!(!beyond);
    assert!(elsewhere, "each namespace has its own");
    assert!(withdrawn.expect("an answer"));
    assert!(in_its_place);
}
