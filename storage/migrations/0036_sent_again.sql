-- rolling
-- A message that failed is sent again by one request at a time, whichever node answers it.
ALTER TABLE message
    ADD COLUMN sending_until timestamptz;                       -- how long no other request may send it again
