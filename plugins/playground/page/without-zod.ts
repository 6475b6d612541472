/** Stands in the page for zod, which nothing here gives the library a schema of. */
export {}
