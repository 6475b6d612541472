/** What of an address may be shown as a link: absolute, of a kind that opens nothing in this page, without a name and a password. */
export function safeAddress(href: string): URL | undefined {
  try {
    const url = new URL(href.trim())
    const isKnown = ['http:', 'https:', 'mailto:', 'tel:'].includes(url.protocol)
    return isKnown && url.username === '' && url.password === '' ? url : undefined
  } catch {
    return undefined
  }
}

/** A target with more than this behind `?` or `#` is asked about: data leaves by links too. */
const mostCarried = 200

/** Whether a target carries so much that its reader has to see all of it first. */
export const carriesMuch = ({ search, hash }: URL): boolean =>
  search.length > mostCarried || hash.length > mostCarried

/** The host of a link whose words look like the address of another one. */
export function otherHost(words: string, url: URL): string | undefined {
  const looksLike = /^(?:[a-z][a-z0-9+.-]*:\/\/)?(?:[^\s/@]*@)?((?:[\p{L}\p{N}-]+\.)+[\p{L}]{2,})/iu
  const said = looksLike
    .exec(words.trim())?.[1]
    ?.toLowerCase()
    .replace(/^www\./, '')
  const host = url.hostname.replace(/^www\./, '')
  return said !== undefined && host !== '' && said !== host ? url.hostname : undefined
}

const turning = /[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/gu

/** A text in which nothing turns the line around. */
export const straight = (text: string): string => text.replace(turning, '\ufffd')

/** How large a picture may be that stands in the text itself. */
const mostOfData = 256 * 1024

/** The address of a picture that may be loaded: of this page's making, or of a host that the page names. */
export function picture(src: string, hosts: readonly string[]): string | undefined {
  const isData = /^data:image\/(?:png|jpeg|gif|webp);base64,[A-Za-z0-9+/=]*$/.test(src)
  if (isData) return src.length * 0.75 <= mostOfData ? src : undefined
  const url = safeAddress(src)
  return url?.protocol === 'https:' && hosts.includes(url.hostname) ? url.href : undefined
}
