"""upload_images: pictures for one pet, dropped or named, seen, sent, and followed one by one."""

from petsync.widgets.upload.form import UploadForm, upload_images

__all__ = ["UploadForm", "upload_images"]
