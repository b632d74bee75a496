//! What every room says about its types in the same words.

/// Declares an enum whose values have one text each.
#[macro_export]
macro_rules! named {
    ($(#[$meta:meta])* $vis:vis enum $name:ident {
        $($(#[$doc:meta])* $variant:ident = $text:literal,)*
    }) => {
        $(#[$meta])*
        $vis enum $name { $($(#[$doc])* $variant,)* }

        impl $name {
            /// Every value, in the order of their declaration.
            #[allow(dead_code, reason = "not every set is enumerated")]
            $vis const ALL: [Self; [$($text),*].len()] = [$(Self::$variant),*];

            /// Its text.
            $vis const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }
        }
    };
}

/// Shows a type by these members; the others are secrets, or have no text.
#[macro_export]
macro_rules! shows {
    ($name:ident: $($member:ident),*) => {
        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_struct(stringify!($name))
                    $(.field(stringify!($member), &self.$member))*
                    .finish_non_exhaustive()
            }
        }
    };
}
