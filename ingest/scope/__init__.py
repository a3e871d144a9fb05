"""What a document applies to: devices, languages, operators."""
