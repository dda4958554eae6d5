"""A media vendor that makes pictures, music, video and prose by procedure; its protocol is in PROTOCOL.md."""
