package modelserver

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"
)

// transferParams are vLLM's kv_transfer_params, in its order.
type transferParams struct {
	DoRemotePrefill bool     `json:"do_remote_prefill"`
	DoRemoteDecode  bool     `json:"do_remote_decode"`
	RemoteBlockIDs  blockIDs `json:"remote_block_ids"`
	RemoteEngineID  string   `json:"remote_engine_id"`
	RemoteRequestID string   `json:"remote_request_id"`
	RemoteHost      string   `json:"remote_host"`
	RemotePort      int      `json:"remote_port"`
	TPSize          int      `json:"tp_size"`
	RemoteNumTokens int      `json:"remote_num_tokens"`

	linkParams
}

// complete says whether p names a prompt to fetch. vLLM serves a request without what is needed as if it had none.
func (p *transferParams) complete() bool {
	return p != nil && p.DoRemotePrefill && p.RemoteEngineID != "" && p.RemoteRequestID != "" && p.RemoteHost != "" && p.RemotePort != 0 &&
		len(p.RemoteBlockIDs) > 0
}

// remoteDecode says whether another server will fetch this request's blocks.
func (p *transferParams) remoteDecode() bool { return p != nil && p.DoRemoteDecode }

// blockIDs are written as newer versions of vLLM do, one list for every group of layers, of which there is one here, and
// read in both forms.
type blockIDs []int32

// MarshalJSON writes [[1,2,3]], and null for none.
func (b blockIDs) MarshalJSON() ([]byte, error) {
	if len(b) == 0 {
		return []byte("null"), nil
	}
	return json.Marshal([][]int32{b})
}

// UnmarshalJSON reads [[1,2,3]], [1,2,3], ["1","2","3"] and null.
func (b *blockIDs) UnmarshalJSON(text []byte) error {
	*b = nil
	if bytes.Equal(text, []byte("null")) {
		return nil
	}
	var flat []int32
	if json.Unmarshal(text, &flat) == nil {
		*b = flat
		return nil
	}
	var words []string
	if json.Unmarshal(text, &words) == nil {
		for _, w := range words {
			n, err := strconv.ParseInt(w, 10, 32)
			if err != nil {
				return errors.New("remote_block_ids must be block ids")
			}
			*b = append(*b, int32(n))
		}
		return nil
	}
	var groups [][]int32
	if json.Unmarshal(text, &groups) != nil || len(groups) != 1 {
		return errors.New("remote_block_ids must be a list of block ids, or one such list in a list")
	}
	*b = groups[0]
	return nil
}
