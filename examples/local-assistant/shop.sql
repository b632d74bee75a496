CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT NOT NULL, email TEXT NOT NULL);
CREATE TABLE orders (id INTEGER PRIMARY KEY, customer INTEGER NOT NULL, placed TEXT NOT NULL, shipped TEXT);
INSERT INTO customers VALUES (1, 'Ann', 'ann@example.com'), (2, 'Bo', 'bo@example.com');
INSERT INTO orders VALUES (101, 1, '2026-11-02', '2026-11-04'), (102, 2, '2026-11-10', NULL);
