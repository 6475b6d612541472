/** Stands in for zod, which the library loads for zod's schemas; no schema of this page is one of zod's. */
export {}
