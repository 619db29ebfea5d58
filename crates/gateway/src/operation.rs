//! Operation labels of the request metrics. The [table](crate::api) defines the operations.

/// Operations with counters of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// GET of an object.
    GetObject,
    /// HEAD of an object.
    HeadObject,
    /// Lists the buckets (GET of the service).
    ListBuckets,
    /// Lists the objects of a bucket (GET of a bucket).
    ListObjects,
    /// PUT of an object with its bytes.
    PutObject,
    /// PUT of an object that is copied from another one.
    CopyObject,
    /// PUT of a part, with its bytes or copied from an object.
    UploadPart,
    /// Assembles the parts of an upload into an object.
    CompleteMultipartUpload,
    /// Deletes an object (DELETE of an object).
    DeleteObject,
    /// Deletes the objects listed in the body of a POST.
    DeleteObjects,
    /// Gives an object a new name.
    RenameObject,
    /// Any other request that changes an object: tags, ACL, storage class.
    ChangeObject,
    /// Any other request that changes no object.
    Other,
}

impl Operation {
    /// Number of operations.
    pub const COUNT: usize = 13;

    /// All operations, in the order of the counters.
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

    /// Label in the metrics: the name in the S3 API.
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
