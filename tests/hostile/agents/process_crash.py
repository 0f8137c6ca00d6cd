# Ends by a fault of its own.
import ctypes
ctypes.string_at(0)
