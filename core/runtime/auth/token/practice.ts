import { readToken } from './token.ts'

/** A delegation of a key that nobody has to the same key. It has run out. */
const token =
  'OqJlcm9vdHOB2CpYJQABcRIgF9GzpUqNVOrQYVRs9TNCyuCdkYTHQSZOQa44UY7XNB5ndmVyc2lvbgGoAgFxEiChreLKNhX+bAJf8x31CojDqM' +
  '1IOO7zk+eoCVg/Ji0VIKdhc1hE7aEDQChkv1L3n1d0BiHp4gJKBz4+abecijboKndDUMCwDMr8YtLvmmpTNbXCweear3DlzpAjOyuuBjrm2Ik1' +
  'FAfAiAhhdmUwLjkuMWNhdHSBomNjYW5rb3JhY2xlL2NhbGxkd2l0aHg4ZGlkOmtleTp6Nk1raHVTZWtkbVA4UGdQTWEzcEw4SzI2dExVNlU0ej' +
  'NrVEFhMVBOdEd6c0Q5N1FjYXVkWCLtATNIJ4IGAo1edDjalTrZ81z5bZNdSIOoU9m59x/4u4BzY2V4cBprCoqBY2lzc1gi7QEzSCeCBgKNXnQ4' +
  '2pU62fNc+W2TXUiDqFPZufcf+LuAc2NwcmaAWQFxEiAX0bOlSo1U6tBhVGz1M0LK4J2RhMdBJk5BrjhRjtc0HqFqdWNhbkAwLjkuMdgqWCUAAX' +
  'ESIKGt4so2Ff5sAl/zHfUKiMOozUg47vOT56gJWD8mLRUg'

/** Reads a token that proves nothing: what runs for the first time, Node compiles first, and no caller should wait for that. */
export function practiseReading(): void {
  readToken(token, { blocks: 0, signatures: 0 })
}
