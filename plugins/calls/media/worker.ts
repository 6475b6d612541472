import { parentPort } from 'node:worker_threads'
import type { FromMedia, ToMedia } from './messages.ts'
import { Peer } from './peer.ts'

// The thread of sound: a turn never makes the sound stutter, and sound never delays a turn.
const port = parentPort
const peers = new Map<string, Peer>()
const tell = (message: FromMedia) => port?.postMessage(message)

async function open({ call, sdp, place, silenceMs }: Extract<ToMedia, { type: 'open' }>) {
  try {
    const { peer, sdp: answer } = await Peer.open({
      ...{ sdp, place, silenceMs },
      tell(what) {
        if (what.type === 'lost' || what.type === 'hostile') peers.delete(call)
        tell({ call, ...what })
      },
    })
    peers.set(call, peer)
    tell({ call, type: 'opened', sdp: answer })
  } catch (error) {
    tell({ call, type: 'failed', reason: error instanceof Error ? error.message : String(error) })
  }
}

port?.on('message', (message: ToMedia) => {
  if (message.type === 'open') return void open(message)
  peers.get(message.call)?.do(message)
  if (message.type === 'close') peers.delete(message.call)
})
