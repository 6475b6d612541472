import { DataIntegrityProof } from '@digitalbazaar/data-integrity'
import { createVerifyCryptosuite } from '@digitalbazaar/eddsa-jcs-2022-cryptosuite'
import { defaultDocumentLoader, verifyCredential } from '@digitalbazaar/vc'
import { checkStatus } from '@digitalbazaar/vc-bitstring-status-list'

/**
 * Verifies with Digital Bazaar's library, as a stranger: keys come from the resolver of the server, status lists from where the
 * credential says, contexts from the library. The library loads nothing else.
 */
export async function verify(credential: object, server: string) {
  const suite = new DataIntegrityProof({ cryptosuite: createVerifyCryptosuite() })
  const documentLoader = async (url: string) => {
    if (url.startsWith('https://')) return defaultDocumentLoader(url)
    const address = url.startsWith('did:')
      ? `${server}/1.0/identifiers/${encodeURIComponent(url)}`
      : url
    const response = await fetch(address, { headers: { accept: 'application/did, */*;q=0.1' } })
    if (!response.ok) throw new Error(`${url} answers ${response.status}.`)
    return { contextUrl: null, documentUrl: url, document: await response.json() }
  }
  const { verified, error, statusResult } = await verifyCredential({
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
  const reasons = [error, ...(error?.errors ?? [])].flatMap((each) => each?.message ?? [])
  return { verified, reasons, revoked: statusResult?.results.some(({ status }) => status) }
}
