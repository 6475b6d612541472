/** Replaces zod, which the client library imports for zod schemas, because this page has no zod schemas. */
export {}
