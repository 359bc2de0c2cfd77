"""Parquet files that are encrypted by keys that anybody may know."""

import base64


def write_encrypted(path, rows, column, **encryption):
    """The rows of an Arrow table as a file in which a column has a key of its own, and the footer too unless that is plain.

    Without settings of an encryption nothing is encrypted.
    """
    from pyarrow import parquet
    from pyarrow.parquet import encryption as crypto

    class Keys(crypto.KmsClient):
        def __init__(self, _):
            super().__init__()

        def wrap_key(self, key_bytes, _):
            return base64.b64encode(key_bytes)

        def unwrap_key(self, wrapped_key, _):
            return base64.b64decode(wrapped_key)

    how = None
    if encryption:
        told = crypto.EncryptionConfiguration(footer_key="f", column_keys={"c": [column]}, **encryption)
        how = crypto.CryptoFactory(Keys).file_encryption_properties(crypto.KmsConnectionConfig(), told)
    with parquet.ParquetWriter(path, rows.schema, encryption_properties=how) as writer:
        writer.write_table(rows)
