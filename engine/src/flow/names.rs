//! Typed names: the only way in which code refers to other code.

use std::fmt;
use std::marker::PhantomData;

use crate::model::{MAX_ID_BYTES, TypeName};

macro_rules! names {
    ($($(#[$about:meta])+ $Name:ident<$($T:ident),+>;)+) => {$(
        $(#[$about])+
        ///
        /// The name is stored: it stays when the function is renamed or moved.
        pub struct $Name<$($T),+> {
            name: &'static str,
            types: PhantomData<fn($($T),+)>,
        }

        impl<$($T),+> $Name<$($T),+> {
            /// The reference to `name`: 1 to 255 bytes, printable ASCII, no space at the end.
            pub const fn new(name: &'static str) -> Self {
                assert_name(name);
                Self { name, types: PhantomData }
            }

            /// The name as it is stored.
            pub fn name(&self) -> TypeName {
                TypeName::new(self.name).expect("the constructor has checked it")
            }
        }

        impl<$($T),+> Clone for $Name<$($T),+> {
            fn clone(&self) -> Self {
                *self
            }
        }

        impl<$($T),+> Copy for $Name<$($T),+> {}

        impl<$($T),+> fmt::Debug for $Name<$($T),+> {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(formatter, concat!(stringify!($Name), "({})"), self.name)
            }
        }
    )+};
}

names! {
    /// A workflow that takes an `I` and returns an `O`.
    Workflow<I, O>;
    /// An activity that takes an `I` and returns an `O`.
    Activity<I, O>;
    /// A signal that carries a `T`.
    Signal<T>;
    /// A request that takes an `I`, may change the workflow, and is answered by an `O`.
    Update<I, O>;
    /// A question that takes an `I` and is answered by an `O`.
    Query<I, O>;
}

const fn assert_name(name: &str) {
    let bytes = name.as_bytes();
    assert!(!bytes.is_empty(), "a name is empty");
    assert!(
        bytes.len() <= MAX_ID_BYTES,
        "a name is longer than 255 bytes"
    );
    assert!(bytes[bytes.len() - 1] != b' ', "a name ends in a space");
    let mut index = 0;
    while index < bytes.len() {
        assert!(
            bytes[index] >= b' ' && bytes[index] < 0x7f,
            "a name holds something else than printable ASCII"
        );
        index += 1;
    }
}
