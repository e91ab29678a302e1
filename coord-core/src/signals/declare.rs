//! The two macros with which a crate declares its signals.

/// Makes a closed enum a metric label: each variant with its value.
///
/// The enum itself is written outside, so that rustc reports a value that nobody emits.
#[macro_export]
macro_rules! labels {
    ($Type:ident { $($Variant:ident => $value:literal),+ $(,)? }) => {
        impl $crate::signals::Argument for $Type {
            const ROLE: $crate::signals::Role = $crate::signals::Role::Label(&[$($value),+]);
            type Logged<'a> = &'static str;
            fn logged(&self) -> &'static str {
                match self {$( Self::$Variant => $value ),+}
            }
            fn label(&self) -> ::core::option::Option<&'static str> {
                ::core::option::Option::Some(self.logged())
            }
        }
    };
}

/// Gives every variant of the crate's `Signal` its row: key, meaning, kind, level and alarm.
///
/// See the [module](crate::signals) for an example. It adds `pub const SIGNALS` and
/// `Signal::emit`; the enum stays outside.
#[macro_export]
macro_rules! declare {
    ($($prefix:literal),+;
     $( $Variant:ident { $($field:ident),* $(,)? } => $key:literal, $about:literal,
        $kind:ident, $level:ident, $alarm:expr; )+) => {
        /// Every signal this crate can emit.
        pub const SIGNALS: &[$crate::signals::Declaration] = {
            #[allow(unused_imports)]
            use $crate::signals::{
                Alarm::*, FIFTEEN_MINUTES, FIVE_MINUTES, ONE_MINUTE, Runbook, When::*, Window,
            };
            const PREFIXES: &[&str] = &[$($prefix),+];
            &[$( $crate::signals::checked(
                $crate::signals::Declaration {
                    key: $key,
                    metric: $crate::signals::metric!($key, $kind),
                    about: $about,
                    kind: $crate::signals::Kind::$kind,
                    level: $crate::signals::Level::$level,
                    fields: &[$( $crate::signals::field(stringify!($field), |signal: Signal| {
                        #[allow(unreachable_patterns)]
                        match signal { Signal::$Variant { $field, .. } => Some($field), _ => None }
                    }) ),*],
                    alarm: $alarm,
                },
                PREFIXES,
            ) ),+]
        };

        /// One row a variant: a second row would be a second definition of the same name.
        #[allow(non_upper_case_globals)]
        const _: () = { $( const $Variant: () = (); )+ };

        impl Signal {
            /// Writes the log line and the metric of this signal.
            pub(crate) fn emit(self) {
                #[allow(unused_imports)]
                use $crate::signals::Argument as _;
                match self {$(
                    Signal::$Variant { $($field),* } => {
                        $crate::__tracing::event!(
                            target: "coord",
                            $crate::signals::level!($level),
                            key = $key,
                            trace_id = $crate::trace::current_id(),
                            $( $field = $field.logged(), )*
                        );
                        const METRIC: &str = $crate::signals::metric!($key, $kind);
                        $crate::signals::record(
                            METRIC,
                            $crate::signals::Kind::$kind,
                            &[$( (stringify!($field), $field.label(), $field.measure()) ),*],
                        );
                    }
                )+}
            }
        }
    };
}

/// The `tracing` level of a declared level.
#[doc(hidden)]
#[macro_export]
macro_rules! __level {
    (Debug) => {
        $crate::__tracing::Level::DEBUG
    };
    (Info) => {
        $crate::__tracing::Level::INFO
    };
    (Warn) => {
        $crate::__tracing::Level::WARN
    };
    (Error) => {
        $crate::__tracing::Level::ERROR
    };
}

/// The metric's name of a key.
#[doc(hidden)]
#[macro_export]
macro_rules! __metric {
    ($key:literal, $kind:ident) => {{
        const LENGTH: usize = $crate::signals::metric_length($key, $crate::signals::Kind::$kind);
        const NAME: [u8; LENGTH] = $crate::signals::metric_name($key, $crate::signals::Kind::$kind);
        $crate::signals::metric_str(&NAME)
    }};
}
