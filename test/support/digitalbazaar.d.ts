// The parts of these packages that the tests use: the packages come without types.
declare module '@digitalbazaar/vc' {
  type Loader = (
    url: string,
  ) => Promise<{ contextUrl: null; documentUrl: string; document: unknown }>
  interface StatusResult {
    readonly verified: boolean
    readonly results: readonly { readonly status: boolean }[]
  }
  interface Verified {
    readonly verified: boolean
    readonly error?: Error & { readonly errors?: readonly Error[] }
    readonly statusResult?: StatusResult
  }
  export const defaultDocumentLoader: Loader
  export function verifyCredential(options: {
    credential: unknown
    suite: unknown
    documentLoader: Loader
    checkStatus?: (options: object) => Promise<StatusResult>
  }): Promise<Verified>
}
declare module '@digitalbazaar/data-integrity' {
  export class DataIntegrityProof {
    constructor(options: { cryptosuite: unknown })
  }
}
declare module '@digitalbazaar/eddsa-jcs-2022-cryptosuite' {
  export function createVerifyCryptosuite(): unknown
}
declare module '@digitalbazaar/vc-bitstring-status-list' {
  export function checkStatus(options: object): Promise<{
    verified: boolean
    results: readonly { readonly status: boolean }[]
  }>
}
declare module 'jsonld' {
  const jsonld: {
    // any: the tests look into the result right away
    expand(document: object, options: { documentLoader: unknown; safe: boolean }): Promise<any[]>
  }
  export default jsonld
}
