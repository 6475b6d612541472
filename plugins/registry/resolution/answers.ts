/** The media type of a dereferenced DID URL with its metadata. */
export const dereferencing = 'application/did-url-dereferencing'
/** The media types of a DID document alone. */
export const documents = ['application/did', 'application/did+ld+json', 'application/did+json']

const types = [
  'application/did-resolution',
  'application/ld+json',
  'application/json',
  ...documents,
  dereferencing,
]

/** The statuses and media types that resolution answers with, for `/openapi.json`. */
export const resolutionAnswers = {
  200: [...types, 'text/uri-list'],
  303: ['text/plain'],
  400: types,
  404: types,
  406: types,
  410: types,
  501: types,
}
