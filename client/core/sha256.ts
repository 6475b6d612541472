/** SHA-256, by the browser where it has it, else by code that is fetched then: a page by plain HTTP has no `crypto.subtle`. */
export async function sha256(bytes: Uint8Array<ArrayBuffer>): Promise<Uint8Array<ArrayBuffer>> {
  // The types say that it is always there.
  const { subtle }: { readonly subtle?: SubtleCrypto } = crypto
  if (subtle) return new Uint8Array(await subtle.digest('SHA-256', bytes))
  const { hashed } = await import('../wallet/plain.ts')
  return new Uint8Array(hashed(bytes))
}
