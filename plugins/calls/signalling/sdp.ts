import { RuntimeError } from '#core'

/** What a page offers for a call, with nothing in it that names an address. */
export interface Offer {
  /** The offer without its candidates: the agent answers who reaches it, and sends nothing to an address that an offer names. */
  readonly sdp: string
  /** The SHA-256 fingerprint of the page's certificate, as the offer has it. */
  readonly fingerprint: string
  readonly hasVideo: boolean
}

/** How long an offer may be, and how many lines it may have. */
export const longestOffer = { characters: 65_536, lines: 2_000 }

interface Section {
  readonly kind: string
  readonly lines: readonly string[]
}

const fingerprintLine = /^a=fingerprint:sha-256 ((?:[0-9a-f]{2}:){31}[0-9a-f]{2})$/i
const codecOf = {
  audio: /^a=rtpmap:\d{1,3} opus\/48000\/2$/i,
  video: /^a=rtpmap:\d{1,3} vp8\/90000$/i,
}
const namesAddress = /^a=(?:candidate:|end-of-candidates|remote-candidates:)/

/** Reads an offer. Throws `SDP_INVALID` with what is missing in it. */
export function readOffer(sdp: string): Offer {
  const lines = sdp.split(/\r?\n/).filter((line) => line !== '')
  if (lines[0] !== 'v=0') throw invalid('it does not begin with "v=0"')
  if (lines.length > longestOffer.lines) throw invalid(`it has over ${longestOffer.lines} lines`)
  const [session, ...media] = sectionsOf(lines)
  const ofKind = (kind: string) => media.filter((section) => section.kind === kind)
  const [audio, ...otherAudio] = ofKind('audio')
  const [video, ...otherVideo] = ofKind('video')
  const [data, ...otherData] = ofKind('application')
  if (!audio || otherAudio.length > 0) throw invalid('it needs one section of audio, and one only')
  if (otherVideo.length > 0) throw invalid('it has more than one section of video')
  if (!data || otherData.length > 0)
    throw invalid('it needs one section for a data channel, and one only')
  demandCodec(audio, 'audio', 'Opus')
  if (video) demandCodec(video, 'video', 'VP8')
  if (!audio.lines.some((line) => line === 'a=sendrecv' || line === 'a=recvonly'))
    throw invalid('its audio is neither a=sendrecv nor a=recvonly')
  if (lines.includes('a=ice-lite')) throw invalid('a=ice-lite stands in it')
  const setups = new Set(lines.filter((line) => line.startsWith('a=setup:')))
  if (setups.size !== 1 || !setups.has('a=setup:actpass'))
    throw invalid('it is no offer: it needs a=setup:actpass')
  const fingerprint = fingerprintOf(session, media)
  const kept = lines.filter((line) => !namesAddress.test(line))
  return { sdp: `${kept.join('\r\n')}\r\n`, fingerprint, hasVideo: video !== undefined }
}

/** The fingerprint of an answer that this server made. */
export function answeredFingerprint(sdp: string): string {
  const found = sdp.split(/\r?\n/).map((line) => fingerprintLine.exec(line)?.[1])
  const fingerprint = found.find((one) => one !== undefined)
  if (fingerprint === undefined) throw new Error('The answer of a call has no fingerprint.')
  return fingerprint
}

function sectionsOf(lines: readonly string[]): Section[] {
  const sections: { kind: string; lines: string[] }[] = [{ kind: 'session', lines: [] }]
  for (const line of lines) {
    const kind = /^m=(\S+)/.exec(line)?.[1]
    if (kind !== undefined) sections.push({ kind, lines: [] })
    sections.at(-1)?.lines.push(line)
  }
  return sections
}

function demandCodec({ lines }: Section, kind: 'audio' | 'video', name: string): void {
  if (!lines.some((line) => codecOf[kind].test(line)))
    throw invalid(`its section of ${kind} does not offer ${name}`)
}

function fingerprintOf(session: Section | undefined, media: readonly Section[]): string {
  const all = [session, ...media].flatMap((section) => section?.lines ?? [])
  const told = all.filter((line) => line.startsWith('a=fingerprint:'))
  const found = new Set(told.map((line) => fingerprintLine.exec(line)?.[1]?.toUpperCase()))
  const [fingerprint] = found
  if (fingerprint === undefined || found.size !== 1)
    throw invalid('it needs one SHA-256 fingerprint, the same in all its sections')
  return fingerprint
}

/** The refusal of an offer, with what is wrong with it. */
export const invalid = (what: string): RuntimeError =>
  new RuntimeError('SDP_INVALID', `The offer cannot be used: ${what}.`, {
    status: 400,
    hint: 'Send the whole offer of an RTCPeerConnection with one audio track and a data channel made before it.',
  })
