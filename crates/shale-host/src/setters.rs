//! Builders of options.

/// Defines, for each field of an options struct, a method of the same name that sets it, so that
/// options can be built in one expression although the struct is `#[non_exhaustive]`.
#[macro_export]
macro_rules! setters {
    ($($field:ident: $value:ty,)*) => {$(
        #[doc = concat!("Sets the field `", stringify!($field), "`.")]
        #[must_use]
        pub fn $field(mut self, $field: $value) -> Self {
            self.$field = $field;
            self
        }
    )*};
}
