//! Operation labels of the request metrics. The [table](crate::api) defines the operations.

/// The operations that are counted apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// GET of an object.
    GetObject,
    /// HEAD of an object.
    HeadObject,
    /// GET of the service: its buckets.
    ListBuckets,
    /// GET of a bucket: its objects.
    ListObjects,
    /// PUT of an object with its bytes.
    PutObject,
    /// PUT of an object from another one.
    CopyObject,
    /// PUT of a part, with its bytes or from another object.
    UploadPart,
    /// The parts become an object.
    CompleteMultipartUpload,
    /// DELETE of an object.
    DeleteObject,
    /// POST of a list of objects to delete.
    DeleteObjects,
    /// One object gets the name of another.
    RenameObject,
    /// Any other request that changes an object: its tags, its access list, its storage class.
    ChangeObject,
    /// Any other request that changes no object.
    Other,
}

impl Operation {
    /// How many there are.
    pub const COUNT: usize = 13;

    /// All, in the order of the counters.
    pub const ALL: [Self; Self::COUNT] = [
        Self::GetObject,
        Self::HeadObject,
        Self::ListBuckets,
        Self::ListObjects,
        Self::PutObject,
        Self::CopyObject,
        Self::UploadPart,
        Self::CompleteMultipartUpload,
        Self::DeleteObject,
        Self::DeleteObjects,
        Self::RenameObject,
        Self::ChangeObject,
        Self::Other,
    ];

    /// S3's name for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::GetObject => "GetObject",
            Self::HeadObject => "HeadObject",
            Self::ListBuckets => "ListBuckets",
            Self::ListObjects => "ListObjects",
            Self::PutObject => "PutObject",
            Self::CopyObject => "CopyObject",
            Self::UploadPart => "UploadPart",
            Self::CompleteMultipartUpload => "CompleteMultipartUpload",
            Self::DeleteObject => "DeleteObject",
            Self::DeleteObjects => "DeleteObjects",
            Self::RenameObject => "RenameObject",
            Self::ChangeObject => "ChangeObject",
            Self::Other => "Other",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counters_have_a_place_for_each() {
        for (n, operation) in Operation::ALL.into_iter().enumerate() {
            assert_eq!(operation as usize, n);
        }
    }
}
