import { expect, test } from 'vitest'
import { readOffer } from '../signalling/sdp.ts'

const print = Array.from({ length: 32 }, (_, i) => (i + 160).toString(16).toUpperCase()).join(':')
const session = ['v=0', 'o=- 1 2 IN IP4 127.0.0.1', 's=-', 't=0 0', 'a=group:BUNDLE 0 1']
const ends = [`a=fingerprint:sha-256 ${print}`, 'a=setup:actpass']
const audio = [
  'm=audio 9 UDP/TLS/RTP/SAVPF 111',
  'a=rtpmap:111 opus/48000/2',
  'a=sendrecv',
  ...ends,
]
const video = ['m=video 9 UDP/TLS/RTP/SAVPF 96', 'a=rtpmap:96 VP8/90000', 'a=sendonly', ...ends]
const data = ['m=application 9 UDP/DTLS/SCTP webrtc-datachannel', 'a=sctp-port:5000', ...ends]
const offer = (...sections: readonly string[][]) => [...session, ...sections.flat()].join('\r\n')
const without = (lines: readonly string[], start: string) =>
  lines.filter((line) => !line.startsWith(start))
const instead = (lines: readonly string[], start: string, line: string) => [
  ...without(lines, start),
  line,
]

test('an offer is read without a single address of it', () => {
  const candidates = [
    'a=candidate:1 1 udp 2 169.254.169.254 80 typ host',
    'a=candidate:2 1 udp 2 127.0.0.1 5432 typ host',
    'a=candidate:3 1 udp 2 x.local 9 typ host',
    'a=end-of-candidates',
  ]
  const read = readOffer(offer([...audio, ...candidates], data))
  expect(read).toMatchObject({ fingerprint: print, hasVideo: false })
  expect(read.sdp).not.toMatch(/candidate|169\.254|5432|\.local/)
  expect(readOffer(offer(audio, video, data)).hasVideo).toBe(true)
})

test.each([
  ['', 'begin'],
  ['hello', 'begin'],
  [offer(data), 'one section of audio'],
  [offer(audio, audio, data), 'one section of audio'],
  [offer(audio, video, video, video, data), 'more than one section of video'],
  [offer(audio, instead(video, 'a=rtpmap', 'a=rtpmap:96 H264/90000'), data), 'VP8'],
  [offer(instead(audio, 'a=rtpmap', 'a=rtpmap:0 PCMU/8000'), data), 'Opus'],
  [offer(audio), 'data channel'],
  [offer(without(audio, 'a=fingerprint'), without(data, 'a=fingerprint')), 'SHA-256'],
  [
    offer(instead(audio, 'a=fingerprint', `a=fingerprint:sha-1 ${print.slice(0, 59)}`), data),
    'SHA-256',
  ],
  [
    offer(
      audio,
      instead(data, 'a=fingerprint', `a=fingerprint:sha-256 ${print.replace('A0', 'B0')}`),
    ),
    'same in all',
  ],
  [
    offer(
      instead(audio, 'a=setup', 'a=setup:passive'),
      instead(data, 'a=setup', 'a=setup:passive'),
    ),
    'no offer',
  ],
  [
    offer(instead(audio, 'a=setup', 'a=setup:active'), instead(data, 'a=setup', 'a=setup:active')),
    'no offer',
  ],
  [offer([...audio, 'a=ice-lite'], data), 'ice-lite'],
  [offer(instead(audio, 'a=sendrecv', 'a=inactive'), data), 'a=sendrecv'],
  [offer([...audio, ...Array.from({ length: 2_000 }, () => 'a=x')], data), '2000 lines'],
])('what cannot be answered is refused with what is missing (%#)', (sdp, what) => {
  expect(() => readOffer(sdp)).toThrow(
    expect.objectContaining({ code: 'SDP_INVALID', status: 400 }),
  )
  expect(() => readOffer(sdp)).toThrow(what)
})
