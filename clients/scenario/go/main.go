// Plays a scenario with code generated from the protos alone: main SCENARIO SOCKET SECRET_FILE CONTROL.
//
// There is no SDK for Go. This program shows what a client has to do by itself: send the boot secret, set deadlines, and
// after a broken connection resume the dispatch instead of sending it again. See README.md for the steps and lines.
package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	pb "subagents/dispatch/v1"
	errors "subagents/errors/v1"
)

type action struct{ Status, Do, Call string }

type step struct {
	Do, Principal, Locale, Dispatch, Narration string
	Calls                                      []struct{ Id, Tool, Request, Approves string }
	When                                       []action
}

type runner struct {
	service   pb.DispatchServiceClient
	secret    string
	control   string
	episode   string
	bound     *pb.BindTurnResponse
	questions map[string]*pb.Question // by the id of the call that asks
}

// frames is what the streams of Dispatch and ResumeDispatch have in common.
type frames func() (*pb.DispatchFrame, error)

func main() {
	if len(os.Args) != 5 {
		log.Fatal("usage: main SCENARIO SOCKET SECRET_FILE CONTROL")
	}
	content, err := os.ReadFile(os.Args[1])
	check(err)
	var scenario struct{ Steps []step }
	check(json.Unmarshal(content, &scenario))
	secret, err := os.ReadFile(os.Args[3])
	check(err)
	connection, err := grpc.Dial("unix:"+os.Args[2], grpc.WithInsecure(), grpc.WithAuthority("localhost"))
	check(err)
	defer connection.Close()
	playing := &runner{
		service:   pb.NewDispatchServiceClient(connection),
		secret:    strings.TrimSpace(string(secret)),
		control:   os.Args[4],
		episode:   "episode-" + unique(),
		questions: map[string]*pb.Question{},
	}
	for _, one := range scenario.Steps {
		switch one.Do {
		case "bind":
			playing.bind(one)
		case "dispatch":
			playing.dispatch(one)
		case "end":
			playing.end(one)
		default:
			log.Fatalf("no step %q", one.Do)
		}
	}
}

func (r *runner) bind(one step) {
	ctx, cancel := r.deadline(5 * time.Second)
	defer cancel()
	bound, err := r.service.BindTurn(ctx, &pb.BindTurnRequest{
		TurnId:    "turn-" + unique(),
		EpisodeId: r.episode,
		Principal: one.Principal,
		Locale:    &one.Locale,
		Source:    pb.TurnSource_TURN_SOURCE_CHAT,
	})
	check(err)
	r.bound = bound
	var names []string
	for _, tool := range bound.Surface.SubAgentTools {
		names = append(names, tool.Name)
	}
	fmt.Println("bound", strings.Join(names, ","), "cap", bound.Surface.FanOutCap)
}

func (r *runner) dispatch(one step) {
	ctx, cancel := r.deadline(20 * time.Second)
	defer cancel()
	request := &pb.DispatchRequest{
		SurfaceToken:  r.bound.SurfaceToken,
		BindingDigest: r.bound.Surface.BindingDigest,
		DispatchId:    one.Dispatch + "-" + unique(),
		OnDisconnect:  pb.OnDisconnect_ON_DISCONNECT_CONTINUE,
	}
	for _, call := range one.Calls {
		arguments, err := json.Marshal(map[string]string{"request": call.Request})
		check(err)
		made := &pb.ToolCall{CallId: call.Id, ToolName: call.Tool, ArgumentsJson: string(arguments)}
		if call.Approves != "" {
			made.Answering = &pb.Answering{
				Receipt:    r.questions[call.Approves].GetReceipt(),
				Decision:   pb.Decision_DECISION_APPROVED,
				AnsweredBy: pb.Answerer_ANSWERER_USER,
			}
		}
		request.Calls = append(request.Calls, made)
	}
	stream, err := r.service.Dispatch(ctx, request)
	check(err)
	next := frames(func() (*pb.DispatchFrame, error) { message, err := stream.Recv(); return message.GetFrame(), err })
	sequence := int64(0)
	for {
		frame, err := next()
		if status.Code(err) == codes.Unavailable {
			next = r.resume(ctx, request.DispatchId, sequence) // never Dispatch: the sub-agents may be running
			continue
		}
		check(err)
		for _, event := range frame.Events {
			if event.Sequence > sequence {
				sequence = event.Sequence
				r.take(event, one, request.DispatchId)
			}
		}
		if frame.Result != nil {
			r.show(frame.Result)
			return
		}
	}
}

func (r *runner) resume(ctx context.Context, dispatchID string, after int64) frames {
	request := &pb.ResumeDispatchRequest{
		SurfaceToken: r.bound.SurfaceToken, DispatchId: dispatchID, AfterSequence: after,
	}
	stream, err := r.service.ResumeDispatch(ctx, request, grpc.WaitForReady(true))
	check(err)
	return func() (*pb.DispatchFrame, error) { message, err := stream.Recv(); return message.GetFrame(), err }
}

func (r *runner) take(event *pb.DispatchEvent, one step, dispatchID string) {
	update := event.GetStatus()
	if update == nil {
		return
	}
	fmt.Println("status", update.Type, strings.Join(update.SubAgentIds, ","))
	for _, wanted := range one.When {
		if wanted.Status != update.Type {
			continue
		}
		switch wanted.Do {
		case "cut":
			control, err := net.Dial("unix", r.control)
			check(err)
			_, err = io.ReadAll(control)
			check(err)
			fmt.Println("cut")
		case "cancel":
			ctx, cancel := r.deadline(5 * time.Second)
			answer, err := r.service.CancelCall(ctx, &pb.CancelCallRequest{
				SurfaceToken: r.bound.SurfaceToken, DispatchId: dispatchID, CallId: wanted.Call,
			})
			cancel()
			check(err)
			fmt.Println("cancelled", wanted.Call, answer.Cancelled)
		}
	}
}

func (r *runner) show(result *pb.DispatchResult) {
	for _, one := range result.Outcomes {
		if one.Question != nil {
			r.questions[one.CallId] = one.Question
			fmt.Println("question", one.CallId, short(one.Question.Kind.String(), "QUESTION_KIND_"), one.Question.Text)
			continue
		}
		reason, text := "-", one.Narration
		if one.Status != nil {
			reason = short(errors.ErrorReason_name[int32(one.Status.Reason)], "ERROR_REASON_")
			text = one.Status.Message // the narration of a failed call is no answer
		}
		fmt.Println("outcome", one.CallId, short(one.Outcome.String(), "OUTCOME_"), reason, text)
	}
}

func (r *runner) end(one step) {
	ctx, cancel := r.deadline(5 * time.Second)
	defer cancel()
	ended, err := r.service.EndTurn(ctx, &pb.EndTurnRequest{
		SurfaceToken: r.bound.SurfaceToken, Narration: one.Narration,
	})
	check(err)
	for _, child := range ended.Children {
		fmt.Println("ended", child.SubAgentId, strings.ToLower(short(child.FinalStatus.String(), "FINAL_STATUS_")))
	}
	gate := "failed"
	if ended.GatePassed {
		gate = "passed"
	}
	fmt.Println("gate", gate)
}

func (r *runner) deadline(within time.Duration) (context.Context, context.CancelFunc) {
	ctx := metadata.AppendToOutgoingContext(context.Background(), "x-subagents-boot-secret", r.secret)
	return context.WithTimeout(ctx, within)
}

func short(name, prefix string) string { return strings.TrimPrefix(name, prefix) }

func unique() string {
	bytes := make([]byte, 16)
	_, err := rand.Read(bytes)
	check(err)
	return fmt.Sprintf("%x", bytes)
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
