import { DataIntegrityProof } from '@digitalbazaar/data-integrity'
import { createVerifyCryptosuite } from '@digitalbazaar/eddsa-jcs-2022-cryptosuite'
import { defaultDocumentLoader, verifyCredential } from '@digitalbazaar/vc'
import { checkStatus } from '@digitalbazaar/vc-bitstring-status-list'

/** Where a verifier reads DID documents and status lists: anything that answers a URL with JSON, or with undefined. */
export type Fetching = (url: string) => Promise<unknown>

/** Verifies with Digital Bazaar's library, its own contexts and no network but what `fetching` allows. */
export async function verify(credential: object, fetching: Fetching) {
  const suite = new DataIntegrityProof({ cryptosuite: createVerifyCryptosuite() })
  const documentLoader = async (url: string) => {
    if (url.startsWith('https://')) return defaultDocumentLoader(url)
    const document = await fetching(url)
    if (document === undefined) throw new Error(`Nothing is loaded from ${url}.`)
    return { contextUrl: null, documentUrl: url, document }
  }
  const result = await verifyCredential({
    credential,
    suite,
    documentLoader,
    ...('credentialStatus' in credential && {
      checkStatus: (options) =>
        checkStatus({
          ...options,
          suite,
          documentLoader,
          verifyBitstringStatusListCredential: true,
        }),
    }),
  })
  const { verified, error, statusResult } = result
  const reasons = [error, ...(error?.errors ?? [])].flatMap((each) => each?.message ?? [])
  return { verified, reasons, revoked: statusResult?.results.some(({ status }) => status) }
}
