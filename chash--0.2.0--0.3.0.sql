\echo Use "ALTER EXTENSION chash UPDATE" to load this file. \quit
