//! Codec: how values are payloads.

use super::error::DurableError;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// How values of your types become payloads, and payloads values.
///
/// Payloads outlive the program that wrote them, so what is chosen here is what later versions have
/// to read.
///
/// # Example
/// ```
/// use wheelwork_durable::Codec;
///
/// let payload = Codec::Json.encode(&("order", 4711))?;
/// assert_eq!(payload, *b"[\"order\",4711]");
/// assert_eq!(Codec::Json.decode::<(String, u32)>(&payload), Ok(("order".to_string(), 4711)));
/// assert!(Codec::Json.decode::<u32>(&payload).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Codec {
    /// JSON: people can read it, and types may gain and lose fields. The default.
    #[default]
    Json,
    /// The format of the crate postcard: a few bytes. A type must stay as it is: fields have no
    /// names there, and what was written for another type may be read as a wrong value. Feature
    /// `postcard`.
    #[cfg(feature = "postcard")]
    Postcard,
}

impl Codec {
    /// Makes a payload of a value.
    ///
    /// # Errors
    /// [`DurableError::Invalid`] for a value that cannot be written so: in JSON, a map whose keys
    /// are not text, for one.
    pub fn encode<T: Serialize + ?Sized>(self, value: &T) -> Result<Vec<u8>, DurableError> {
        let payload = match self {
            Self::Json => serde_json::to_vec(value).map_err(|error| error.to_string()),
            #[cfg(feature = "postcard")]
            Self::Postcard => postcard::to_allocvec(value).map_err(|error| error.to_string()),
        };
        payload
            .map_err(|why| DurableError::Invalid(format!("the payload cannot be encoded: {why}")))
    }

    /// Makes a value of a payload.
    ///
    /// # Errors
    /// A payload that is none of such a value: what is wrong with it.
    pub fn decode<T: DeserializeOwned>(self, payload: &[u8]) -> Result<T, String> {
        match self {
            Self::Json => serde_json::from_slice(payload).map_err(|error| error.to_string()),
            #[cfg(feature = "postcard")]
            Self::Postcard => match postcard::take_from_bytes(payload) {
                Ok((value, [])) => Ok(value),
                Ok((_, rest)) => Err(format!("it has {} bytes too many", rest.len())),
                Err(error) => Err(error.to_string()),
            },
        }
    }
}
